package stock;

/** Ensemble size, write quorum, ack quorum. */
record Layout(int ensemble, int write, int ack) {
    static final Layout ALL_OF_THREE = new Layout(3, 3, 2);
    static final Layout ALL_ACKNOWLEDGE = new Layout(3, 3, 3);
    static final Layout TWO_OF_THREE = new Layout(3, 2, 2);
    static final Layout THREE_OF_FIVE = new Layout(5, 3, 2);

    /** `3/3/2` */
    static Layout of(String words) {
        String[] sizes = words.split("/");
        return new Layout(
                Integer.parseInt(sizes[0]), Integer.parseInt(sizes[1]), Integer.parseInt(sizes[2]));
    }

    /** True when the bookie at this place of the ensemble is to keep the entry. */
    boolean keeps(int place, long entryId) {
        return Math.floorMod(place - entryId, (long) ensemble) < write;
    }

    @Override
    public String toString() {
        return ensemble + "/" + write + "/" + ack;
    }
}
