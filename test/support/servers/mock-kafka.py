# Runs librdkafka's mock cluster. It prints the addresses of the servers, or nothing if librdkafka is not installed. Then each
# line of its input is a call, as in `topic_create orders 3 3`, and each line of its output what that has returned. Its errors are the log.
import ctypes
import sys

try:
    library = ctypes.CDLL("librdkafka.so.1")
except OSError:
    sys.exit()
# Without these a pointer is cut to 32 bits.
for name in ("conf_new", "new", "mock_cluster_new"):
    getattr(library, "rd_kafka_" + name).restype = ctypes.c_void_p
library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p


def argument(word):
    return ctypes.c_int(int(word)) if word.lstrip("-").isdigit() else word.encode()


conf = ctypes.c_void_p(library.rd_kafka_conf_new())
library.rd_kafka_conf_set(conf, b"debug", b"mock", None, ctypes.c_size_t(0))
client = ctypes.c_void_p(library.rd_kafka_new(0, conf, None, ctypes.c_size_t(0)))
cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, int(sys.argv[1])))
# In answers of later versions librdkafka 2.0 leaves out a field (the epoch of the leader, in ListOffsets).
library.rd_kafka_mock_set_apiversion(cluster, 2, 0, 3)
print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
for line in sys.stdin:
    function, *words = line.split()
    print(getattr(library, "rd_kafka_mock_" + function)(cluster, *map(argument, words)), flush=True)
