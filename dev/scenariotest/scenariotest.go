// Package scenariotest runs the text scenarios of controllers: files that say what happens, and below each command what comes of it,
// in the manner of etcd's raft. "go test -run TestScenarios -rewrite" writes what comes of it anew.
package scenariotest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
)

// Play carries out one command and returns what came of it. An error says that the command is wrong.
type Play func(ctx context.Context, command *datadriven.TestData) (came string, err error)

// Run runs all files of a folder, each in virtual time of its own. Begin returns what plays a file's commands.
func Run(t *testing.T, folder string, begin func() Play) {
	datadriven.Walk(t, folder, func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			play := begin()
			datadriven.RunTest(t, path, func(t *testing.T, command *datadriven.TestData) string {
				came, err := play(t.Context(), command)
				if err != nil {
					command.Fatalf(t, "%v", err)
				}
				if came == "" {
					return "ok"
				}
				return came
			})
		})
	})
}
