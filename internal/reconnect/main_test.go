package reconnect_test

import (
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The handlers sleep until a time that the process remembers, which virtual time never reaches.
	utilruntime.ErrorHandlers = nil
	m.Run()
}
