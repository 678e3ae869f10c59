package ccm

import "github.com/go-logr/logr"

// orderlySink is a log without one line of controller-runtime's manager. After every release of the lease that says, as an
// error, that leader election is lost, because the elector calls back the same way in both cases. A lease that is really lost
// ends the manager with that error, and is not logged by it.
type orderlySink struct{ logr.LogSink }

// withoutFalseAlarm returns a logger for the manager.
func withoutFalseAlarm(logger logr.Logger) logr.Logger {
	sink := logger.GetSink()
	if sink == nil { // logr.Discard
		return logger
	}
	return logger.WithSink(orderlySink{sink})
}

// Error drops the line. Should its text change, it is logged.
func (s orderlySink) Error(err error, message string, keysAndValues ...any) {
	if message == "error received after stop sequence was engaged" && err != nil && err.Error() == "leader election lost" {
		return
	}
	sink := s.LogSink
	if deep, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deep.WithCallDepth(1)
	}
	sink.Error(err, message, keysAndValues...)
}

// WithValues keeps the filter.
func (s orderlySink) WithValues(keysAndValues ...any) logr.LogSink {
	return orderlySink{s.LogSink.WithValues(keysAndValues...)}
}

// WithName keeps the filter.
func (s orderlySink) WithName(name string) logr.LogSink { return orderlySink{s.LogSink.WithName(name)} }

// WithCallDepth keeps the filter.
func (s orderlySink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return orderlySink{deep.WithCallDepth(depth)}
	}
	return s
}
