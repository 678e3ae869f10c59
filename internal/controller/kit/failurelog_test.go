package kit

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestWhatGoesOnFailingIsLoggedOnce(t *testing.T) {
	var lines []string
	ctx := log.IntoContext(context.Background(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	ended, end := context.WithCancel(ctx)
	end()
	const listing, writing = "Could not list", "Could not write"
	var failures FailureLog
	for _, step := range []struct {
		ctx     context.Context
		message string
		err     error
		want    string // the line that is new
	}{
		{ctx, listing, nil, ""},
		{ctx, listing, errors.New("timeout"), `"msg"="Could not list" "error"="timeout" "retryAfter"=5`},
		{ctx, listing, errors.New("refused"), ""},
		{ctx, writing, errors.New("refused"), `"msg"="Could not write" "error"="refused" "retryAfter"=5`},
		{ctx, listing, nil, `"level"=0 "msg"="Recovered" "failure"="Could not list"`},
		{ctx, listing, nil, ""},
		{ended, writing, nil, ""},
		{ended, writing, errors.New("canceled"), ""},
	} {
		before := len(lines)
		failures.Note(step.ctx, step.message, step.err, "retryAfter", 5)
		var want []string
		if step.want != "" {
			want = append(want, step.want)
		}
		if got := lines[before:]; !slices.Equal(got, want) {
			t.Errorf("%s, %v: logged %q, want %q", step.message, step.err, got, want)
		}
	}
}
