package stock;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** How many bookies serve when a test of the class begins, those with the lowest numbers. */
@Retention(RetentionPolicy.RUNTIME)
@interface Bookies {
    int value();

    /** Whether the last of them has held nothing of another class. */
    boolean lastIsNew() default false;
}
