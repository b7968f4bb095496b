import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;

/** The JDK's own server with a pool of threads ("serve"), and its own client with eight requests at once ("ask HOST"). */
public class Builtin {
    static void serve() throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(80), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            int length = exchange.getRequestBody().readAllBytes().length;
            byte[] answer = (exchange.getRequestMethod() + " " + length).getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
    }

    static void ask(String host) {
        HttpClient client = HttpClient.newHttpClient();
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + host + "/"))
            .POST(HttpRequest.BodyPublishers.ofByteArray(new byte[100_000])).build();
        IntStream.range(0, 8)
            .mapToObj(n -> client.sendAsync(request, HttpResponse.BodyHandlers.ofString())).toList().stream()
            .map(CompletableFuture::join).forEach(response -> System.out.println(response.body()));
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments[0].equals("serve")) {
            serve();
        } else {
            ask(arguments[1]);
        }
    }
}
