package ccm

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/zap"
)

// What a plugin logs by zap's global logger is in the log, with its fields; a logger that the program has set stays.
func TestZapIsLogged(t *testing.T) {
	var lines []string
	sink := funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{Verbosity: 3})
	logger := zap.New(zapCore{func() logr.Logger { return sink }}).Named("oci").With(zap.String("zone", "a"))
	logger.Info("made", zap.Int("count", 2))
	logger.Error("refused", zap.Error(errors.New("quota")))
	logger.Debug("not at this level")
	text := strings.Join(lines, "\n")
	if len(lines) != 2 || !strings.Contains(text, `"msg"="made" "zone"="a" "count"=2`) || !strings.Contains(text, `"msg"="refused"`) ||
		!strings.Contains(text, `"error"="quota"`) || !strings.Contains(text, "oci") {
		t.Errorf("logged\n%s", text)
	}
	defer zap.ReplaceGlobals(zap.NewNop())()
	logZap()
	if _, ours := zap.L().Core().(zapCore); !ours {
		t.Error("zap's global logger discards what it gets")
	}
	own := zap.NewExample()
	zap.ReplaceGlobals(own)
	if logZap(); zap.L() != own {
		t.Error("the program's own logger is gone")
	}
}
