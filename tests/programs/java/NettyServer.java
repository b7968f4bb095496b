import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.ServerChannel;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;

/** Netty with its native transport over epoll on port 80, and with Java's selectors on port 81. */
public class NettyServer {
    static class Answer extends SimpleChannelInboundHandler<FullHttpRequest> {
        @Override
        protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
            String transport = context.channel().getClass().getSimpleName();
            String said = request.method() + " " + request.content().readableBytes() + " " + transport + "\n";
            var response = new DefaultFullHttpResponse(
                HttpVersion.HTTP_1_1, HttpResponseStatus.OK, Unpooled.copiedBuffer(said.getBytes()));
            response.headers().setInt(HttpHeaderNames.CONTENT_LENGTH, said.length());
            context.writeAndFlush(response).addListener(ChannelFutureListener.CLOSE_ON_FAILURE);
        }
    }

    static void serve(EventLoopGroup loops, Class<? extends ServerChannel> kind, int port) throws InterruptedException {
        new ServerBootstrap().group(loops).channel(kind).childHandler(new ChannelInitializer<SocketChannel>() {
            @Override
            protected void initChannel(SocketChannel channel) {
                channel.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(1 << 20), new Answer());
            }
        }).bind(port).sync();
    }

    public static void main(String[] arguments) throws InterruptedException {
        serve(new EpollEventLoopGroup(), EpollServerSocketChannel.class, 80);
        serve(new NioEventLoopGroup(), NioServerSocketChannel.class, 81);
    }
}
