# Threads, exceptions, fibers, garbage collection with compaction, and processes, checked, for as many seconds as the argument says.
require "digest/sha2"

$stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ARGV[0].to_i
def going? = Process.clock_gettime(Process::CLOCK_MONOTONIC) < $stop

def wrong(what)
  puts "wrong: #{what}"
  $stdout.flush
  exit!(1)
end

def thrower(depth)
  raise ArgumentError, "deep" if depth == 0
  thrower(depth - 1) + 1
end

def endless(depth) = endless(depth + 1) + 1

def round(seed)
  begin
    thrower(seed % 100)
    wrong("no exception")
  rescue ArgumentError => error
    wrong(error.message) unless error.message == "deep"
  end
  fiber = Fiber.new { 100.times { |i| Fiber.yield(i * seed) }; nil }
  sum = 0
  while (value = fiber.resume) do sum += value end
  wrong("fibers") unless sum == 4950 * seed
  hash = (0...500).to_h { |i| ["k#{i}", i * seed] }
  wrong("hash") unless hash.values.sum == 124750 * seed
  wrong("sha256") unless Digest::SHA256.hexdigest("abc").start_with?("ba7816bf")
  return unless seed % 200 == 0
  begin
    endless(0)
    wrong("no end of the stack")
  rescue SystemStackError
  end
end

counts = [0] * 4
threads = 3.times.map do |number|
  Thread.new do
    seed = 0
    while going?
      round(seed += 1)
      counts[number] += 1
    end
  end
end
while going?
  child = fork { round(3); exit!(7) }
  Process.wait(child)
  wrong("a forked child: #{$?}") unless $?.exitstatus == 7
  GC.compact if counts[3] % 20 == 0 && GC.respond_to?(:compact)
  counts[3] += 1
  sleep 0.01
end
threads.each(&:join)
puts "requests #{counts.sum}"
