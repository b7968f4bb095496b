import com.hazelcast.config.Config;
import com.hazelcast.config.JoinConfig;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.ILock;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.util.concurrent.TimeUnit;

/**
 * A member of a Hazelcast cluster that takes a lock again and again, and notes when it has it.
 *
 * <pre>HazelcastLock NAME [--lite] MEMBER...</pre>
 *
 * A lite member has no data: with one other member, that one alone decides who has the lock.
 */
public class HazelcastLock {
    private static PrintWriter history;
    private static String name;

    private static void note(String type, String f) {
        history.println("{\"process\": \"" + name + "\", \"type\": \"" + type + "\", \"f\": \"" + f + "\"}");
        history.flush();
    }

    public static void main(String[] words) throws Exception {
        name = words[0];
        history = new PrintWriter(new FileWriter("history.jsonl", true));
        Config config = new Config();
        config.setProperty("hazelcast.phone.home.enabled", "false");
        config.setProperty("hazelcast.logging.type", "none");
        config.setProperty("hazelcast.heartbeat.interval.seconds", "1");
        config.setProperty("hazelcast.max.no.heartbeat.seconds", "4");
        config.setProperty("hazelcast.operation.call.timeout.millis", "3000");
        config.setProperty("hazelcast.wait.seconds.before.join", "1");
        config.setProperty("hazelcast.io.thread.count", "1");
        config.setProperty("hazelcast.operation.thread.count", "2");
        config.setProperty("hazelcast.partition.count", "11");
        config.getNetworkConfig().setPortAutoIncrement(false);
        JoinConfig join = config.getNetworkConfig().getJoin();
        join.getMulticastConfig().setEnabled(false);
        join.getTcpIpConfig().setEnabled(true);
        for (int index = 1; index < words.length; index++) {
            if (words[index].equals("--lite")) config.setLiteMember(true);
            else join.getTcpIpConfig().addMember(words[index]);
        }
        HazelcastInstance member = Hazelcast.newHazelcastInstance(config);
        System.out.println("joined " + member.getCluster().getMembers().size());
        Thread.sleep(3000);
        ILock lock = member.getLock("lock");
        while (true) {
            try {
                // The invocation is noted once the lock is there: a lock that is not used harms nobody.
                if (lock.tryLock(1, TimeUnit.SECONDS)) {
                    note("invoke", "acquire");
                    note("ok", "acquire");
                    Thread.sleep(300);
                    note("invoke", "release");
                    note("ok", "release");
                    lock.unlock();
                }
            } catch (RuntimeException error) {
                System.out.println(error.getClass());
            }
            Thread.sleep(200);
        }
    }
}
