package stock;

import java.util.Comparator;
import org.junit.jupiter.api.ClassDescriptor;
import org.junit.jupiter.api.ClassOrderer;
import org.junit.jupiter.api.ClassOrdererContext;

/** So that bookies are added twice in a run, and not before every other class. */
public final class FewestBookiesFirst implements ClassOrderer {
    @Override
    public void orderClasses(ClassOrdererContext context) {
        context.getClassDescriptors().sort(Comparator.comparingInt(FewestBookiesFirst::bookies));
    }

    private static int bookies(ClassDescriptor described) {
        return described.findAnnotation(Bookies.class).map(Bookies::value).orElse(0);
    }
}
