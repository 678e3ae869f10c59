// Package scenariotest runs the text scenarios of controllers: files that say what happens, and below each command what comes of it,
// in the manner of etcd's raft. "go test -run TestScenarios -rewrite" writes what comes of it anew.
package scenariotest

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
	"github.com/go-logr/logr"
)

// Play carries out one command. An error says that the command is wrong.
type Play func(ctx context.Context, command *datadriven.TestData) error

// Run runs all files of a folder, each in virtual time of its own. Begin returns what plays a file's commands, and writes to out what comes of the one
// that is played.
func Run(t *testing.T, folder string, begin func(out *strings.Builder) Play) {
	datadriven.Walk(t, folder, func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			out := &strings.Builder{}
			play := begin(out)
			datadriven.RunTest(t, path, func(t *testing.T, command *datadriven.TestData) string {
				out.Reset()
				if err := play(logr.NewContext(t.Context(), logr.Discard()), command); err != nil {
					command.Fatalf(t, "%v", err)
				}
				synctest.Wait() // what runs on beside the command has written by then
				return cmp.Or(out.String(), "ok")
			})
		})
	})
}

// NamesIn returns the keys of arguments.
func NamesIn(arguments []datadriven.CmdArg) (names []string) {
	for _, argument := range arguments {
		names = append(names, argument.Key)
	}
	return names
}
