package stock;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;

/** These tools change what ZooKeeper's access lists keep for the fleet: they come with a person's
 * certificate. All other classes show that of an application. */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(ByAPerson.Certificate.class)
@interface ByAPerson {
    /** The certificate that ZooKeeper sees, for as long as the class runs. */
    final class Certificate implements BeforeAllCallback, AfterAllCallback {
        @Override
        public void beforeAll(ExtensionContext context) {
            Tls.comeToZooKeeperAs("person");
        }

        @Override
        public void afterAll(ExtensionContext context) {
            Tls.comeToZooKeeperAs("client");
        }
    }
}
