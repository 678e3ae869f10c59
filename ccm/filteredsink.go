package ccm

import "github.com/go-logr/logr"

// withoutFalseAlarm returns a logger for the manager, without one line of controller-runtime. After every release of the lease that says, as an
// error, that leader election is lost, because the elector calls back the same way in both cases. A lease that is really lost
// ends the manager with that error, and is not logged by it. Should the text of the line change, it is logged.
func withoutFalseAlarm(logger logr.Logger) logr.Logger {
	sink := logger.GetSink()
	if sink == nil { // logr.Discard
		return logger
	}
	return logger.WithSink(filteredSink{LogSink: sink, drops: func(err error, message string) bool {
		return message == "error received after stop sequence was engaged" && err != nil && err.Error() == "leader election lost"
	}})
}

// filteredSink is a sink that changes lines, or leaves them out.
type filteredSink struct {
	logr.LogSink
	// values returns with which keys and values a message is logged. Nil: with its own.
	values func(message string, keysAndValues []any) []any
	// drops reports whether an error is left out. Nil: none is.
	drops func(err error, message string) bool
}

var _ logr.CallDepthLogSink = filteredSink{}

// Info implements logr.LogSink.
func (f filteredSink) Info(level int, message string, keysAndValues ...any) {
	if f.values != nil {
		keysAndValues = f.values(message, keysAndValues)
	}
	sink := f.deeper(1)
	sink.Info(level, message, keysAndValues...)
}

// Error implements logr.LogSink.
func (f filteredSink) Error(err error, message string, keysAndValues ...any) {
	if f.drops == nil || !f.drops(err, message) {
		f.deeper(1).Error(err, message, keysAndValues...)
	}
}

// WithValues implements logr.LogSink.
func (f filteredSink) WithValues(keysAndValues ...any) logr.LogSink {
	return f.over(f.LogSink.WithValues(keysAndValues...))
}

// WithName implements logr.LogSink.
func (f filteredSink) WithName(name string) logr.LogSink { return f.over(f.LogSink.WithName(name)) }

// WithCallDepth implements logr.CallDepthLogSink.
func (f filteredSink) WithCallDepth(depth int) logr.LogSink { return f.over(f.deeper(depth)) }

// over returns the filter over another sink.
func (f filteredSink) over(sink logr.LogSink) filteredSink {
	f.LogSink = sink
	return f
}

// deeper returns the sink below as one that is called through so many functions more.
func (f filteredSink) deeper(frames int) logr.LogSink {
	if deep, ok := f.LogSink.(logr.CallDepthLogSink); ok {
		return deep.WithCallDepth(frames)
	}
	return f.LogSink
}
