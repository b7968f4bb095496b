import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A virtual thread for each connection, at the server ("serve") and for 500 clients at once ("ask HOST"). The compiler of
 * Java 17 knows no virtual threads, so they are asked for by name.
 */
public class Virtual {
    static ExecutorService threads() throws ReflectiveOperationException {
        return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
    }

    static boolean isVirtual() throws ReflectiveOperationException {
        return (boolean) Thread.class.getMethod("isVirtual").invoke(Thread.currentThread());
    }

    static void serve() throws IOException, ReflectiveOperationException {
        ExecutorService threads = threads();
        try (ServerSocket listener = new ServerSocket(7000, 1000)) {
            while (true) {
                Socket socket = listener.accept();
                threads.submit(() -> {
                    try (socket) {
                        byte[] asked = socket.getInputStream().readNBytes(4);
                        Thread.sleep(1000);
                        socket.getOutputStream().write(asked);
                    }
                    return null;
                });
            }
        }
    }

    static int talk(String host, int n) throws Exception {
        try (Socket socket = new Socket(host, 7000)) {
            byte[] said = {(byte) n, (byte) (n >> 8), 1, 2};
            socket.getOutputStream().write(said);
            boolean same = java.util.Arrays.equals(socket.getInputStream().readAllBytes(), said);
            return same && isVirtual() ? 1 : 0;
        }
    }

    static void ask(String host) throws Exception {
        long begun = System.nanoTime();
        int same = 0;
        ExecutorService threads = threads();
        List<Future<Integer>> asked = new ArrayList<>();
        for (int n = 0; n < 500; n++) {
            int number = n;
            asked.add(threads.submit(() -> talk(host, number)));
        }
        for (Future<Integer> answer : asked) {
            same += answer.get();
        }
        threads.shutdown();
        // Each waits for a second, and all of them for the same one.
        System.out.println(same + (System.nanoTime() - begun < 3_000_000_000L ? " at once" : " one after the other"));
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("serve")) {
            serve();
        } else {
            ask(arguments[1]);
        }
    }
}
