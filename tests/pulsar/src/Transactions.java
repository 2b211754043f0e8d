import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * {@code URL INPUT OUTPUT SEED COUNT NOTES}: transactions that each take one message of INPUT and
 * give some to OUTPUT. Every third one is aborted. Notes as programs/produce.py has them, with
 * {@code aborted KEY NUMBER} besides; those of a transaction are written once it has ended.
 */
public final class Transactions {
    private static final int EACH = 8;
    private static final int KEYS = 4;
    private static final int ABORT_EVERY = 3;

    private Transactions() {}

    public static void main(String[] words) throws Exception {
        String output = words[2];
        long seed = Long.parseLong(words[3]);
        int count = Integer.parseInt(words[4]);
        Path notes = Path.of(words[5]);
        note(notes, "begin " + System.currentTimeMillis() + "\n");
        try (PulsarClient client =
                        PulsarClient.builder().serviceUrl(words[0]).enableTransaction(true).build();
                Producer<byte[]> producer =
                        client.newProducer().topic(output).sendTimeout(0, TimeUnit.SECONDS).create();
                Consumer<byte[]> input =
                        client.newConsumer(Schema.BYTES)
                                .topic(words[1])
                                .subscriptionName("worker")
                                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                                .subscribe()) {
            for (int one = 0; one < count; one++) {
                boolean aborts = one % ABORT_EVERY == ABORT_EVERY - 1;
                Message<byte[]> taken = input.receive();
                Transaction transaction =
                        client.newTransaction()
                                .withTransactionTimeout(5, TimeUnit.MINUTES)
                                .build()
                                .get();
                StringBuilder said = new StringBuilder();
                for (int step = 0; step < EACH; step++) {
                    int message = one * EACH + step;
                    String key = "k" + message % KEYS;
                    long number = message / KEYS;
                    producer.newMessage(transaction)
                            .key(key)
                            .value(Payload.of(output, key, number, seed))
                            .send();
                    said.append(aborts ? "aborted " : "ack ").append(key + " " + number);
                    said.append(aborts ? "\n" : " MS\n");
                }
                input.acknowledgeAsync(taken.getMessageId(), transaction).get();
                (aborts ? transaction.abort() : transaction.commit()).get();
                String now = Long.toString(System.currentTimeMillis());
                note(notes, said.toString().replace("MS", now));
            }
        }
        note(notes, "end " + count * EACH + "\n");
    }

    private static void note(Path notes, String said) throws Exception {
        Files.writeString(
                notes, said, StandardOpenOption.CREATE, StandardOpenOption.APPEND,
                StandardOpenOption.SYNC);
    }
}
