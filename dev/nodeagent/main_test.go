package nodeagent_test

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loopbackConfig() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }
