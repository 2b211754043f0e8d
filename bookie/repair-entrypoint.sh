#!/bin/sh
# What starts in the repair image: the given command, or, for the one word `executor`, an executor
# as Spark's Kubernetes back end asks for it, by its environment.
set -eu

run() {
    # A first process that reaps children and passes signals on, where the image has one.
    command -v tini >/dev/null && exec tini -s -- "$@"
    exec "$@"
}

# Figures of the ZooKeeper that runs here, beside it. A variable, not a word of the command: an image
# of before, which the cluster's spec may name, starts its ZooKeeper all the same.
if [ -n "${BOOKIE_ZOOKEEPER_METRICS_PORT:-}" ]; then
    while :; do
        python -m bookie.monitoring.exporter --port "$BOOKIE_ZOOKEEPER_METRICS_PORT" --bind 0.0.0.0 || sleep 5
    done &
fi

[ "${1:-}" = executor ] || run "$@"

spark=$(python -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0])')
java=$(python -c 'from bookie.metadata.java import find_java; print(find_java())')
export SPARK_HOME="$spark" PYSPARK_PYTHON="${PYSPARK_PYTHON:-$(command -v python)}"

# SPARK_JAVA_OPT_<n>, in the order of their numbers; a Java without the optional module refuses it.
set --
n=0
while eval "[ -n \"\${SPARK_JAVA_OPT_$n+x}\" ]"; do
    eval "option=\$SPARK_JAVA_OPT_$n"
    n=$((n + 1))
    case $option in
        --add-modules=jdk.incubator.vector)
            "$java" --list-modules | grep -q '^jdk.incubator.vector' || continue ;;
    esac
    set -- "$@" "$option"
done

# No -Xms: a heap that is not used stays free for the Python workers.
run "$java" "$@" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-/opt/spark/conf}:$spark/jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
