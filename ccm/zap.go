package ccm

import (
	"slices"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// logZap has what a plugin logs by zap.L() written to the log of this process. Without it zap discards it: its vendor's main sets a logger, and a
// main of Mooring has none of it. A logger that is set already stays.
func logZap() {
	if !zap.L().Core().Enabled(zapcore.FatalLevel) {
		zap.ReplaceGlobals(zap.New(zapCore{klog.Background}))
	}
}

// zapDebug is the level of the log at which lines of zap's level debug are written.
const zapDebug = 4

// zapCore writes zap's lines to a logger.
type zapCore struct{ logger func() logr.Logger }

var _ zapcore.Core = zapCore{}

// Enabled reports whether lines of a level are written.
func (c zapCore) Enabled(level zapcore.Level) bool {
	return level > zapcore.DebugLevel || c.logger().V(zapDebug).Enabled()
}

// With returns a core whose lines have more fields.
func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	values := keysAndValues(fields)
	return zapCore{func() logr.Logger { return c.logger().WithValues(values...) }}
}

// Check adds the core to the writers of a line, if it writes the level.
func (c zapCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write writes a line.
func (c zapCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	var failure error
	if at := slices.IndexFunc(fields, func(field zapcore.Field) bool { return field.Type == zapcore.ErrorType }); at >= 0 && entry.Level >= zapcore.ErrorLevel {
		failure, _ = fields[at].Interface.(error)
		fields = slices.Delete(slices.Clone(fields), at, at+1)
	}
	logger, values := c.logger(), keysAndValues(fields)
	if entry.LoggerName != "" {
		logger = logger.WithName(entry.LoggerName)
	}
	switch {
	case entry.Level >= zapcore.ErrorLevel:
		logger.Error(failure, entry.Message, values...)
	case entry.Level == zapcore.DebugLevel:
		logger.V(zapDebug).Info(entry.Message, values...)
	default:
		logger.Info(entry.Message, values...)
	}
	return nil
}

// Sync does nothing: each line is written at once.
func (zapCore) Sync() error { return nil }

// theirs are keys and values that a plugin has chosen.
type theirs []any

// keysAndValues returns fields as logr has them, in their order.
func keysAndValues(fields []zapcore.Field) theirs {
	values := make(theirs, 0, 2*len(fields))
	for _, field := range fields {
		one := zapcore.NewMapObjectEncoder()
		field.AddTo(one)
		for key, value := range one.Fields {
			values = append(values, key, value)
		}
	}
	return values
}
