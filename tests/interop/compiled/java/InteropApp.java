import com.xxl.job.core.context.XxlJobHelper;
import com.xxl.job.core.executor.impl.XxlJobSimpleExecutor;
import com.xxl.job.core.handler.annotation.XxlJob;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collections;

/**
 * A Java executor, started as {@code InteropApp ADMIN PORT FOLDER}.
 *
 * <p>Each start of a handler is a line in FOLDER/starts.jsonl, whatever the gateway believes.
 */
public class InteropApp {
    static final int LOOK_MILLISECONDS = 20;
    static int port;
    static Path folder;

    public static void main(String[] arguments) throws Exception {
        port = Integer.parseInt(arguments[1]);
        folder = Path.of(arguments[2]);
        XxlJobSimpleExecutor executor = new XxlJobSimpleExecutor();
        executor.setAdminAddresses(arguments[0]);
        executor.setAppname(System.getenv("APP"));
        executor.setAccessToken(System.getenv("TOKEN"));
        executor.setIp("127.0.0.1");
        executor.setPort(port);
        executor.setLogPath(folder.resolve("java-logs").toString());
        executor.setLogRetentionDays(30);
        executor.setXxlJobBeanList(Collections.singletonList(new InteropApp()));
        executor.start();
        Runtime.getRuntime().addShutdownHook(new Thread(executor::destroy));
        Thread.currentThread().join();
    }

    @XxlJob("noop")
    public void noop() throws Exception {
        noteStart();
        XxlJobHelper.handleSuccess("done");
    }

    @XxlJob("boom")
    public void boom() throws Exception {
        noteStart();
        throw new IllegalStateException("not today");
    }

    @XxlJob("sleep")
    public void sleep() throws Exception {
        noteStart();
        Thread.sleep(60_000);
    }

    @XxlJob("until-file")
    public void untilFile() throws Exception {
        noteStart();
        while (!Files.exists(Path.of(XxlJobHelper.getJobParam()))) {
            Thread.sleep(LOOK_MILLISECONDS);
        }
        XxlJobHelper.handleSuccess("released");
    }

    @XxlJob("talk")
    public void talk() throws Exception {
        noteStart();
        int count = Integer.parseInt(XxlJobHelper.getJobParam());
        for (int number = 0; number < count; number++) {
            XxlJobHelper.log("line-" + number + "-");
        }
    }

    private static void noteStart() throws Exception {
        String line =
                String.format(
                        "{\"run\": %d, \"job\": %d, \"shard\": [%d, %d], \"port\": %d}%n",
                        runId(),
                        XxlJobHelper.getJobId(),
                        XxlJobHelper.getShardIndex(),
                        XxlJobHelper.getShardTotal(),
                        port);
        append(folder.resolve("starts.jsonl"), line);
    }

    private static synchronized void append(Path path, String line) throws IOException {
        Files.writeString(path, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** The run's id is the name of its log; up to 3.2 nothing else tells it. */
    private static long runId() throws Exception {
        String path = (String) logFileName().invoke(null);
        String name = Path.of(path).getFileName().toString();
        return Long.parseLong(name.substring(0, name.indexOf('.')));
    }

    private static java.lang.reflect.Method logFileName() throws NoSuchMethodException {
        try {
            return XxlJobHelper.class.getMethod("getJobLogFileName");
        } catch (NoSuchMethodException newer) {
            return XxlJobHelper.class.getMethod("getLogFileName");
        }
    }
}
