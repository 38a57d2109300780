// Threads that throw implicit exceptions (null, bounds, division, stack overflow: signals in HotSpot), allocate, and check what they compute,
// for as many seconds as the argument says.
import java.util.*;
import java.util.concurrent.atomic.*;

public class Busy {
    static final AtomicLong requests = new AtomicLong();

    static int length(String text) { return text.length(); }
    static int element(int[] array, int index) { return array[index]; }
    static int quotient(int a, int b) { return a / b; }
    static int deeper(int n) { return 1 + deeper(n + 1); }

    static void wrong(String what) {
        System.out.println("wrong: " + what);
        Runtime.getRuntime().halt(1);
    }

    static int faults(Runnable... actions) {
        int count = 0;
        for (Runnable action : actions) {
            try {
                action.run();
            } catch (NullPointerException | ArrayIndexOutOfBoundsException | ArithmeticException | StackOverflowError expected) {
                count++;
            }
        }
        return count;
    }

    static void round(int seed) {
        int[] few = new int[3];
        for (int i = 0; i < 300; i++)
            if (faults(() -> length(null), () -> element(few, 3), () -> quotient(seed, 0), () -> length("abc"), () -> element(few, 2)) != 3)
                wrong("implicit exceptions");
        if (seed % 50 == 0 && faults(() -> deeper(0)) != 1)
            wrong("stack overflow");
        Map<Integer, String> map = new HashMap<>();
        long sum = 0;
        for (int i = 0; i < 3000; i++)
            map.put(i * seed, Integer.toString(i));
        for (int i = 0; i < 3000; i++)
            sum += Integer.parseInt(map.get(i * seed));
        if (sum != 2999L * 3000 / 2)
            wrong("sum of a map");
        byte[][] garbage = new byte[100][];
        for (int i = 0; i < garbage.length; i++)
            garbage[i] = new byte[i * 50];
        requests.incrementAndGet();
    }

    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() + Integer.parseInt(arguments[0]) * 1000000000L;
        Thread[] threads = new Thread[6];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> {
                for (int seed = 1; System.nanoTime() < end; seed++)
                    round(seed % 1000 + 1);
            });
            threads[t].start();
        }
        for (Thread thread : threads)
            thread.join();
        System.out.println("requests " + requests);
    }
}
