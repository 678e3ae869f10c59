package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const sysctlRoot = "/proc/sys"

// furniture is what the outside passes to the inside.
type furniture struct {
	Dir     string            `json:"dir"`
	Sysctls map[string]string `json:"sysctls"`
	Dirs    []string          `json:"dirs"`
}

// Furnish makes the inside of a sandbox usable: processes, settings and run-time files of its own, and loopback. A test
// calls it first when Inside returns true. It returns a directory for whatever the test's programs write, which is kept
// when the test fails, and otherwise removed after all programs and mounts are gone.
func Furnish(t *testing.T) (dir string) {
	t.Helper()
	var furniture furniture
	if err := json.Unmarshal([]byte(os.Getenv(insideVariable)), &furniture); err != nil {
		t.Fatalf("sandbox: read %s: %v", insideVariable, err)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"keep mounts to the sandbox", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount its processes", func() error { return unix.Mount("proc", "/proc", "proc", 0, "") }},
		{"mount its run-time files", func() error { return mountEmpty("/run") }},
		{"hide the machine's settings", func() error { return hideSysctls(furniture.Sysctls) }},
		{"hide the machine's directories", func() error { return hideDirs(furniture.Dirs) }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("sandbox: %s: %v", step.what, err)
		}
	}
	Command(t, "ip", "link", "set", "lo", "up")
	return furniture.Dir
}

func mountEmpty(dir string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755") }

// hideSysctls puts files in the place of system-wide settings.
func hideSysctls(sysctls map[string]string) error {
	for name, value := range sysctls {
		file := filepath.Join("/run/sysctl", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join(sysctlRoot, name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount over %s: %w", name, err)
		}
	}
	return nil
}

func hideDirs(dirs []string) error {
	for _, dir := range dirs {
		if err := mountEmpty(dir); err != nil {
			return fmt.Errorf("mount over %s: %w", dir, err)
		}
	}
	return nil
}
