package stock;

import java.util.Comparator;
import org.junit.jupiter.api.ClassDescriptor;
import org.junit.jupiter.api.ClassOrderer;
import org.junit.jupiter.api.ClassOrdererContext;

/** So that bookies are added twice in a run, and not before every other class; a new one first to
 * those who need it new. */
public final class FewestBookiesFirst implements ClassOrderer {
    @Override
    public void orderClasses(ClassOrdererContext context) {
        context.getClassDescriptors().sort(Comparator.comparingInt(FewestBookiesFirst::bookies)
                .thenComparing(FewestBookiesFirst::lastHasHeldSomething));
    }

    private static int bookies(ClassDescriptor described) {
        return described.findAnnotation(Bookies.class).map(Bookies::value).orElse(0);
    }

    private static boolean lastHasHeldSomething(ClassDescriptor described) {
        return !described.findAnnotation(Bookies.class).map(Bookies::lastIsNew).orElse(false);
    }
}
