package environment

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const stat = "4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 100 0 0 0 150 25 0 0 20 0 9 0 12345 0 0\n"
	got, err := parseStat([]byte(stat))
	if err != nil || got != 1.75 {
		t.Errorf("got %v s, error %v; want 1.75 s", got, err)
	}
	for _, wrong := range []string{"", "4242 (x", "4242 (x) S 1", "4242 (x) S 1 2 3 4 5 6 7 8 9 10 eleven 12"} {
		if _, err := parseStat([]byte(wrong)); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestParseStatus(t *testing.T) {
	got, err := parseStatus([]byte("Name:\tx\nVmPeak:\t  900 kB\nVmHWM:\t    64 kB\nVmRSS:\t 10 kB\n"))
	if want := (memory{peak: 64 << 10, resident: 10 << 10}); err != nil || got != want {
		t.Errorf("got %+v, error %v; want %+v", got, err, want)
	}
	for _, wrong := range []string{"", "VmRSS: 1 kB\n", "VmHWM: 1 kB\n", "VmHWM: much\nVmRSS: 1 kB\n"} {
		if _, err := parseStatus([]byte(wrong)); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestPeakOfThisProcessIsReset(t *testing.T) {
	const size = 64 << 20
	pid := os.Getpid()
	large, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < size; i += os.Getpagesize() {
		large[i] = 1
	}
	before, err := memoryOf(pid)
	if err != nil || before.peak < size || before.resident < size {
		t.Fatalf("got %+v, error %v; want at least %d", before, err, size)
	}
	if err := unix.Munmap(large); err != nil {
		t.Fatal(err)
	}
	if err := resetPeak(pid); err != nil {
		t.Fatal(err)
	}
	after, err := memoryOf(pid)
	if err != nil || after.peak > before.peak-size/2 || after.resident > before.resident-size/2 {
		t.Errorf("%+v after a reset, %+v before, error %v", after, before, err)
	}
	if cpu, err := CPUSeconds(pid); err != nil || cpu < 0 {
		t.Errorf("%f s of processor time, error %v", cpu, err)
	}
}
