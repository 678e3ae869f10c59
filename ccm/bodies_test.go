package ccm

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// TestBodiesAreNotLogged reads what becomes of client-go's messages about bodies, whichever way the logger was handed on, and of others.
func TestBodiesAreNotLogged(t *testing.T) {
	var lines bytes.Buffer
	plain := funcr.New(func(prefix, args string) { lines.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 10})
	log := logr.New(filteredSink{LogSink: plain.GetSink(), values: withoutBody}).WithName("client").WithValues("a", 1).WithCallDepth(1)
	log.V(8).Info(responseBody, bodyKey, "a secret")
	log.V(8).Info(requestBody, bodyKey, "")
	log.Info("Another", bodyKey, "kept")
	const want = `client"level"=8 "msg"="Response Body" "a"=1 "body"="(never logged)"` + "\n" +
		`client"level"=8 "msg"="Request Body" "a"=1 "body"=""` + "\n" + `client"level"=0 "msg"="Another" "a"=1 "body"="kept"` + "\n"
	if lines.String() != want {
		t.Errorf("the log is\n%swant\n%s", lines.String(), want)
	}
	given := []any{"verb", "GET", bodyKey, "a secret"}
	if _, kept := (bodyFilter{}).FilterS(requestBody, given); !slices.Equal(kept, []any{"verb", "GET", bodyKey, omittedBody}) || given[3] != "a secret" {
		t.Errorf("the filter of text makes of it %q, and of what it was given %q", kept, given)
	}
}
