<?php
// Exceptions, generators, regular expressions and references, checked, for as many seconds as the argument says.
$end = microtime(true) + (int)$argv[1];
$requests = 0;

function wrong(string $what): void
{
    echo "wrong: $what\n";
    exit(1);
}

function thrower(int $depth): int
{
    if ($depth === 0)
        throw new RuntimeException("deep");
    return thrower($depth - 1) + 1;
}

function squares(int $n): Generator
{
    for ($i = 0; $i < $n; $i++)
        yield $i * $i;
}

while (microtime(true) < $end) {
    try {
        thrower($requests % 100);
        wrong("no exception");
    } catch (RuntimeException $error) {
        if ($error->getMessage() !== "deep")
            wrong($error->getMessage());
    }
    if (array_sum(iterator_to_array(squares(1000))) !== 332833500)
        wrong("sum of squares");
    $text = str_repeat("key=value;", 200);
    if (preg_match_all('/(\w+)=(\w+);/', $text, $found) !== 200 || $found[2][199] !== "value")
        wrong("regular expression");
    if (json_decode(json_encode(range(0, 500))) !== range(0, 500))
        wrong("JSON");
    if (substr(hash("sha256", "abc"), 0, 8) !== "ba7816bf")
        wrong("sha256");
    $requests++;
}
echo "requests $requests\n";
