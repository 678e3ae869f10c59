package cloudsim_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(serveAsChild())
	}
	goleak.VerifyTestMain(m)
}
