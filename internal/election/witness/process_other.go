//go:build !linux

package witness

import (
	"fmt"
	"os"
	"runtime"
)

// errUnsupported is why there are no witnesses but on Linux, where a file descriptor can refer to a process.
var errUnsupported = fmt.Errorf("not supported on %s", runtime.GOOS)

func ownProcess() (*os.File, error) { return nil, errUnsupported }

func newRecord() (record, error) { return record{}, errUnsupported }

func awaitEnd(int) error { return errUnsupported }
