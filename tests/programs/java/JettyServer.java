import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** Jetty on port 80, as it is by default. */
public class JettyServer {
    public static void main(String[] arguments) throws Exception {
        Server server = new Server(80);
        server.setHandler(new AbstractHandler() {
            @Override
            public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response)
                    throws IOException {
                int length = request.getInputStream().readAllBytes().length;
                response.getWriter().println(request.getMethod() + " " + length);
                base.setHandled(true);
            }
        });
        server.start();
        server.join();
    }
}
