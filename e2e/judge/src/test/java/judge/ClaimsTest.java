package judge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import org.junit.jupiter.api.Test;

class ClaimsTest {
    private static final String GOOD_STATUS = """
            {"conditions": [{"type": "DurabilityVerified", "status": "True"},
                            {"type": "PossibleDataLoss", "status": "False"}],
             "limbo": {"ledgers": 0, "unchecked": 0},
             "bookies": [{"id": "b0", "state": "Serving", "limboLedgers": 0, "uncheckedLedgers": 0}],
             "audit": {"clean": true, "missing": 0, "unknown": 0, "finishedAt": "noon"},
             "incidents": [{}]}""";

    private static JsonNode json(String text) throws Exception {
        return new ObjectMapper().readTree(text);
    }

    /** Of a bookie that holds ten copies, and one entry of one more. */
    private static JsonNode verdict(String kind, long lost) throws Exception {
        long missing = kind.equals("missing") ? 1 : 0;
        long unknown = kind.equals("unknown") ? 1 : 0;
        return json(String.format("""
                {"findings": {"lost": %d, "wrong": 0, "missing": %d, "corrupt": 0, "unknown": %d, "unjudged": 0},
                 "copies": {"bookies": {"b0": {"held": 10, "missing": %d, "unknown": %d,
                                            "reasons": {"%s": %d}}}}}""",
                lost, missing, unknown, missing, unknown, Copies.LIMBO, unknown));
    }

    private static List<String> against(String status, JsonNode verdict, long faults) throws Exception {
        return Claims.contradictions(json(status), verdict, faults);
    }

    @Test
    void aStatusThatSaysWhatWasSeenIsNotContradicted() throws Exception {
        assertEquals(List.of(), against(GOOD_STATUS, verdict("", 0), 1));
        assertEquals(List.of(), against("{\"status\": " + GOOD_STATUS + "}", verdict("", 0), 1));
    }

    @Test
    void aMissingCopyContradictsVerifiedServingAndTheAudit() throws Exception {
        List<String> found = against(GOOD_STATUS, verdict("missing", 0), 1);
        assertEquals(3, found.size(), found::toString);
        assertTrue(found.get(0).startsWith("DurabilityVerified is True"));
        assertTrue(found.get(1).startsWith("b0 is Serving without limbo: 1 of its copies"));
        assertTrue(found.get(2).startsWith("the audit of noon is clean"));
    }

    @Test
    void aCopyThatNobodySpeaksOfContradictsLimboZero() throws Exception {
        List<String> found = against(GOOD_STATUS, verdict("unknown", 0), 1);
        assertTrue(found.stream().anyMatch(word -> word.startsWith("limbo is 0")), found::toString);
    }

    @Test
    void aLostEntryContradictsNoPossibleLoss() throws Exception {
        List<String> found = against(GOOD_STATUS, verdict("", 1), 1);
        assertTrue(found.stream().anyMatch(word -> word.startsWith("PossibleDataLoss is False")));
    }

    @Test
    void aStatusThatAdmitsItIsNotContradicted() throws Exception {
        String admitted = GOOD_STATUS.replace("\"True\"", "\"Unknown\"")
                .replace("\"ledgers\": 0", "\"ledgers\": 1").replace("\"limboLedgers\": 0", "\"limboLedgers\": 1");
        assertEquals(List.of(), against(admitted, verdict("unknown", 0), 1));
    }

    @Test
    void anIncidentThatIsNotToldIsAContradiction() throws Exception {
        assertEquals(List.of("incidents: 1 are told, 2 were made"), against(GOOD_STATUS, verdict("", 0), 2));
    }
}
