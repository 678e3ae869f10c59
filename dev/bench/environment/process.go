package environment

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of processor times in /proc: USER_HZ, which is 100 on every architecture of Linux that Go knows.
const ticksPerSecond = 100

// CPUSeconds returns how much processor time a process has used, user and system, as /proc/PID/stat says (proc(5)).
func CPUSeconds(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(content)
}

// parseStat reads the fields utime and stime, the 14th and 15th. The 2nd is a name in parentheses that may hold anything.
func parseStat(content []byte) (float64, error) {
	end := bytes.LastIndexByte(content, ')')
	fields := strings.Fields(string(content[end+1:]))
	if end < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("not a process's stat: %q", content)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time in stat: %w", err)
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}

// memory is what a process has resident, in bytes: at most since resetPeak, and now.
type memory struct{ peak, resident int64 }

// memoryOf returns VmHWM and VmRSS in /proc/PID/status.
func memoryOf(pid int) (memory, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	return parseStatus(content)
}

// Resident returns how much memory a process has resident, in bytes.
func Resident(pid int) (int64, error) {
	now, err := memoryOf(pid)
	return now.resident, err
}

func parseStatus(content []byte) (memory, error) {
	peak, err := kilobytes(content, "VmHWM:")
	if err != nil {
		return memory{}, err
	}
	resident, err := kilobytes(content, "VmRSS:")
	return memory{peak: peak << 10, resident: resident << 10}, err
}

// kilobytes returns the value of a line "name: N kB".
func kilobytes(content []byte, name string) (int64, error) {
	for line := range strings.Lines(string(content)) {
		value, found := strings.CutPrefix(line, name)
		if !found {
			continue
		}
		number, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s in a process's status: %w", name, err)
		}
		return number, nil
	}
	return 0, fmt.Errorf("no %s in a process's status", name)
}

// resetPeak makes the peak of memoryOf start anew from what is resident now.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
