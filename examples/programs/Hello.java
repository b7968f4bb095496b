import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

/** Answers every request on a port (80 unless given) with a greeting. */
public class Hello {
    public static void main(String[] args) throws Exception {
        int port = args.length > 0 ? Integer.parseInt(args[0]) : 80;
        HttpServer server = HttpServer.create(new InetSocketAddress(port), 0);
        server.createContext("/", exchange -> {
            byte[] body = ("hello from Java to " + exchange.getRequestURI().getPath() + "\n").getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        System.out.println("listening on " + port);
    }
}
