package runner

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// ThisMachine describes the computer. What it does not show stays empty.
func ThisMachine() figures.Machine {
	machine := figures.Machine{Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		machine.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	machine.CPU = field("/proc/cpuinfo", "model name")
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err == nil {
		machine.MemoryBytes = kilobytes << 10
	}
	return machine
}

// field returns the value of the first line "key: value" of a file.
func field(path, key string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		name, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
