/* A shared library with the calls of NVML that the collector `nvidia` makes, answering what a text file says.

   NVML_SCRIPT names the file, which is read anew at each call. A line is "key result value…"; the key is the
   function, or function/device, or function/device/argument, and the most exact one counts. Devices are "0", "1", …,
   MIG instances "0.0", "0.1", …. A call without a line answers NVML_ERROR_NOT_SUPPORTED. Events stand in a line
   "events 0 device:xid device:xid …", each given once. NVML_CALLS names a file that gets the key of every call.
   Signatures and layouts are those of NVIDIA's nvml.h. */

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };
enum { BOARDS = 8, INSTANCES = 7, XID = 8 };

typedef int result;
typedef struct { char name[16]; } *device; /* opaque to callers, as NVML's is */

static char names[BOARDS * (1 + INSTANCES)][16];

static device handle(int board, int instance) {
    int slot = board * (1 + INSTANCES) + instance + 1;
    if (instance < 0) snprintf(names[slot], 16, "%d", board);
    else snprintf(names[slot], 16, "%d.%d", board, instance);
    return (device)names[slot];
}

/* The rest of the line that has this key, or 0. */
static int line_of(const char *key, char *rest, size_t size) {
    FILE *script = fopen(getenv("NVML_SCRIPT") ? getenv("NVML_SCRIPT") : "/dev/null", "r");
    char line[512], word[128];
    int found = 0, length;
    while (script && !found && fgets(line, sizeof line, script))
        if (sscanf(line, "%127s%n", word, &length) == 1 && strcmp(word, key) == 0) {
            snprintf(rest, size, "%s", line + length);
            found = 1;
        }
    if (script) fclose(script);
    return found;
}

/* The scripted result; on success `values` is what follows it. `argument` below 0: there is none. */
static result answer(const char *function, device of, long argument, char *values, size_t size) {
    char keys[3][128], rest[512];
    const char *name = of ? of->name : "";
    snprintf(keys[0], 128, "%s/%s/%ld", function, name, argument);
    snprintf(keys[1], 128, "%s/%s", function, name);
    snprintf(keys[2], 128, "%s", function);
    if (getenv("NVML_CALLS")) {
        FILE *calls = fopen(getenv("NVML_CALLS"), "a");
        if (calls) {
            fprintf(calls, "%s\n", argument >= 0 ? keys[0] : of ? keys[1] : keys[2]);
            fclose(calls);
        }
    }
    for (int i = argument >= 0 ? 0 : 1; i < 3; i++)
        if (line_of(keys[i], rest, sizeof rest)) {
            int length = 0, code = NOT_SUPPORTED;
            sscanf(rest, "%d%n", &code, &length);
            while (rest[length] == ' ') length++;
            rest[strcspn(rest, "\n")] = 0;
            snprintf(values, size, "%s", rest + length);
            return code;
        }
    return NOT_SUPPORTED;
}

static result number(const char *function, device of, long argument, unsigned long long *value) {
    char values[512];
    result code = answer(function, of, argument, values, sizeof values);
    if (code == SUCCESS) *value = strtoull(values, NULL, 10);
    return code;
}

static result small(const char *function, device of, long argument, unsigned *value) {
    unsigned long long wide = 0;
    result code = number(function, of, argument, &wide);
    if (code == SUCCESS) *value = (unsigned)wide;
    return code;
}

static result string(const char *function, device of, char *buffer, unsigned size) {
    return answer(function, of, -1, buffer, size);
}

/* Opening, and what there is. */

result nvmlInitWithFlags(unsigned flags) {
    char values[512];
    (void)flags;
    return answer("nvmlInitWithFlags", NULL, -1, values, sizeof values);
}
result nvmlShutdown(void) {
    char values[512];
    answer("nvmlShutdown", NULL, -1, values, sizeof values);
    return SUCCESS;
}
const char *nvmlErrorString(result code) { return code == 24 ? "a text of the library's own" : "scripted error"; }
result nvmlDeviceGetCount_v2(unsigned *count) { return small("nvmlDeviceGetCount", NULL, -1, count); }
result nvmlDeviceGetHandleByIndex_v2(unsigned index, device *found) {
    char values[512];
    result code = answer("nvmlDeviceGetHandleByIndex", handle((int)index, -1), -1, values, sizeof values);
    *found = handle((int)index, -1);
    return code;
}
typedef struct {
    char legacy[16];
    unsigned domain, bus, number, identity, subsystem;
    char address[32];
} pci;
result nvmlDeviceGetPciInfo_v3(device of, pci *info) {
    return string("nvmlDeviceGetPciInfo", of, info->address, sizeof info->address);
}
result nvmlDeviceGetUUID(device of, char *uuid, unsigned size) { return string("nvmlDeviceGetUUID", of, uuid, size); }
result nvmlDeviceGetName(device of, char *name, unsigned size) { return string("nvmlDeviceGetName", of, name, size); }
result nvmlDeviceGetMigMode(device of, unsigned *current, unsigned *pending) {
    result code = small("nvmlDeviceGetMigMode", of, -1, current);
    *pending = *current;
    return code;
}
result nvmlDeviceGetMaxMigDeviceCount(device of, unsigned *count) {
    (void)of;
    *count = INSTANCES;
    return SUCCESS;
}
result nvmlDeviceGetMigDeviceHandleByIndex(device of, unsigned index, device *found) {
    unsigned there = 0;
    result code = small("instances", of, -1, &there);
    if (code != SUCCESS || index >= there) return NOT_FOUND;
    *found = handle(atoi(of->name), (int)index);
    return SUCCESS;
}

/* One value each. */

#define SMALL(function) \
    result function(device of, unsigned *value) { return small(#function, of, -1, value); }
#define SMALL_OF_KIND(function) \
    result function(device of, unsigned kind, unsigned *value) { return small(#function, of, kind, value); }
#define WIDE(function) \
    result function(device of, unsigned long long *value) { return number(#function, of, -1, value); }

SMALL(nvmlDeviceGetGpuInstanceId)
SMALL(nvmlDeviceGetComputeInstanceId)
SMALL(nvmlDeviceGetPowerUsage)
SMALL(nvmlDeviceGetEnforcedPowerLimit)
SMALL_OF_KIND(nvmlDeviceGetClockInfo)
SMALL_OF_KIND(nvmlDeviceGetMaxClockInfo)
SMALL_OF_KIND(nvmlDeviceGetTemperature)
SMALL_OF_KIND(nvmlDeviceGetTemperatureThreshold)
SMALL_OF_KIND(nvmlDeviceGetPcieThroughput)
WIDE(nvmlDeviceGetTotalEnergyConsumption)
WIDE(nvmlDeviceGetCurrentClocksEventReasons)
WIDE(nvmlDeviceGetCurrentClocksThrottleReasons)

result nvmlDeviceGetTotalEccErrors(device of, unsigned kind, unsigned since, unsigned long long *count) {
    (void)since;
    return number("nvmlDeviceGetTotalEccErrors", of, kind, count);
}
typedef struct { unsigned version, sensor; int temperature; } temperature;
result nvmlDeviceGetTemperatureV(device of, temperature *value) {
    return small("nvmlDeviceGetTemperatureV", of, value->sensor, (unsigned *)&value->temperature);
}

/* Several values each. */

typedef struct { unsigned gpu, memory; } utilization;
result nvmlDeviceGetUtilizationRates(device of, utilization *rates) {
    char values[512];
    result code = answer("nvmlDeviceGetUtilizationRates", of, -1, values, sizeof values);
    if (code == SUCCESS) sscanf(values, "%u %u", &rates->gpu, &rates->memory);
    return code;
}
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
result nvmlDeviceGetMemoryInfo_v2(device of, memory *info) {
    char values[512];
    result code = answer("nvmlDeviceGetMemoryInfo_v2", of, -1, values, sizeof values);
    if (info->version != (sizeof(memory) | 2u << 24)) return 25;
    if (code == SUCCESS) sscanf(values, "%llu %llu %llu", &info->total, &info->reserved, &info->used);
    return code;
}
typedef struct { unsigned long long reference, violation; } violation;
result nvmlDeviceGetViolationStatus(device of, unsigned policy, violation *time) {
    return number("nvmlDeviceGetViolationStatus", of, policy, &time->violation);
}
result nvmlDeviceGetRemappedRows(device of, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failure) {
    char values[512];
    result code = answer("nvmlDeviceGetRemappedRows", of, -1, values, sizeof values);
    if (code == SUCCESS) sscanf(values, "%u %u %u %u", corrected, uncorrected, pending, failure);
    return code;
}
typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency;
    unsigned type;
    result code;
    union { double real; unsigned small; unsigned long long wide; } value;
} field;
result nvmlDeviceGetFieldValues(device of, int count, field *fields) {
    for (int i = 0; i < count; i++) {
        /* Fields of NVLink (138 to 141; of NVLink 5: 201 to 204) are sums over all links in this scope only. */
        int link = (fields[i].field >= 138 && fields[i].field <= 141) || (fields[i].field >= 201 && fields[i].field <= 204);
        if (link && fields[i].scope != UINT32_MAX) return 2;
        fields[i].type = link ? 3 : 1;
        fields[i].value.wide = 0;
        fields[i].code = number("nvmlDeviceGetFieldValues", of, fields[i].field, &fields[i].value.wide);
    }
    return SUCCESS;
}
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } process;
result nvmlDeviceGetComputeRunningProcesses_v3(device of, unsigned *count, process *processes) {
    char values[512], *next = values;
    result code = answer("nvmlDeviceGetComputeRunningProcesses", of, -1, values, sizeof values);
    unsigned room = *count, found = 0, pid;
    unsigned long long bytes;
    int length;
    if (code != SUCCESS) return code;
    for (; sscanf(next, "%u:%llu%n", &pid, &bytes, &length) == 2; next += length, found++)
        if (found < room) {
            processes[found].pid = pid;
            processes[found].memory = bytes;
        }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* Events. */

typedef struct { device of; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event;
static unsigned delivered;
static char watched[BOARDS];

result nvmlEventSetCreate(void **set) {
    char values[512];
    *set = watched;
    memset(watched, 0, sizeof watched);
    return answer("nvmlEventSetCreate", NULL, -1, values, sizeof values);
}
result nvmlEventSetFree(void *set) {
    char values[512];
    answer("nvmlEventSetFree", NULL, -1, values, sizeof values);
    delivered = 0;
    return set == watched ? SUCCESS : 2;
}
result nvmlDeviceRegisterEvents(device of, unsigned long long types, void *set) {
    char values[512];
    result code = answer("nvmlDeviceRegisterEvents", of, -1, values, sizeof values);
    if (code == SUCCESS && set == watched && types == XID) watched[atoi(of->name)] = 1;
    return code;
}
result nvmlEventSetWait_v2(void *set, event *data, unsigned timeout) {
    char values[512], *next = values;
    unsigned position = 0, board, xid;
    int length;
    result code = answer("nvmlEventSetWait", NULL, -1, values, sizeof values);
    if (code != SUCCESS) return code;
    if (set != watched || timeout > 100 || !line_of("events", values, sizeof values)) return TIMEOUT;
    for (next = strchr(values, '0') + 1; sscanf(next, " %u:%u%n", &board, &xid, &length) == 2; next += length)
        if (position++ == delivered && watched[board]) {
            delivered++;
            memset(data, 0, sizeof *data);
            data->of = handle((int)board, -1);
            data->type = XID;
            data->data = xid;
            return SUCCESS;
        }
    return TIMEOUT;
}
