package judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;

/**
 * What a status says, held against what was seen: where it contradicts. It is never evidence for itself:
 * nothing here makes a verdict better.
 */
final class Claims {
    private Claims() {}

    /**
     * `status`: of a BookieCluster, or the whole object; `verdict`: the JSON of a check;
     * `faults`: how many bookies were made to forget, by whoever did it: each is an incident.
     */
    static List<String> contradictions(JsonNode status, JsonNode verdict, long faults) {
        JsonNode told = status.has("status") && status.get("status").isObject() ? status.get("status") : status;
        JsonNode found = verdict.get("findings");
        long lost = found.get("lost").asLong() + found.get("wrong").asLong();
        long bad = found.get("missing").asLong() + found.get("corrupt").asLong();
        long unknown = found.get("unknown").asLong() + found.get("unjudged").asLong();
        String seen = lost + " entries lost or wrong, " + bad + " copies missing or corrupt, "
                + unknown + " unknown";
        List<String> against = new ArrayList<>();
        if (condition(told, "DurabilityVerified").equals("True") && lost + bad + unknown > 0) {
            against.add("DurabilityVerified is True: " + seen);
        }
        if (condition(told, "PossibleDataLoss").equals("False") && lost > 0) {
            against.add("PossibleDataLoss is False: " + seen);
        }
        JsonNode limbo = told.path("limbo");
        if (limbo.path("ledgers").asLong() + limbo.path("unchecked").asLong() == 0 && inLimbo(verdict) > 0) {
            against.add("limbo is 0: of " + inLimbo(verdict) + " copies their bookies say that they may have"
                    + " forgotten them");
        }
        for (JsonNode bookie : told.path("bookies")) {
            JsonNode copies = verdict.path("copies").path("bookies").path(bookie.path("id").asText());
            long short_ = copies.path("missing").asLong() + copies.path("unknown").asLong();
            long marked = bookie.path("limboLedgers").asLong() + bookie.path("uncheckedLedgers").asLong();
            if (bookie.path("state").asText().equals("Serving") && marked == 0 && short_ > 0) {
                against.add(bookie.path("id").asText() + " is Serving without limbo: " + copies.path("missing")
                        + " of its copies are missing, " + copies.path("unknown") + " unknown");
            }
        }
        JsonNode audit = told.path("audit");
        long auditBad = audit.path("missing").asLong() + audit.path("unknown").asLong()
                + audit.path("lost").asLong() + audit.path("noCopy").asLong();
        if (audit.path("clean").asBoolean() && auditBad == 0
                && found.get("missing").asLong() + found.get("lost").asLong() > 0) {
            against.add("the audit of " + audit.path("finishedAt").asText() + " is clean: " + seen);
        }
        if (told.path("incidents").size() < faults) {
            against.add("incidents: " + told.path("incidents").size() + " are told, " + faults + " were made");
        }
        return against;
    }

    private static long inLimbo(JsonNode verdict) {
        long copies = 0;
        for (JsonNode bookie : verdict.path("copies").path("bookies")) {
            copies += bookie.path("reasons").path(Copies.LIMBO).asLong();
        }
        return copies;
    }

    private static String condition(JsonNode status, String type) {
        for (JsonNode condition : status.path("conditions")) {
            if (condition.path("type").asText().equals(type)) {
                return condition.path("status").asText();
            }
        }
        return "absent";
    }
}
