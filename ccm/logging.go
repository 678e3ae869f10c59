package ccm

import (
	"reflect"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// client-go logs the bodies of requests and answers from level 8 on, with these messages and this key. Among them are the Secret of the
// cloud config, the tokens of ServiceAccounts that are asked for, and those of callers that are reviewed. Which ones are harmless cannot
// be told from a dump of bytes, so none is logged: ADR 8.
const (
	requestBody, responseBody = "Request Body", "Response Body"
	bodyKey                   = "body"
	omittedBody               = "(never logged)"
)

// unbuffered has every line of a log written at once. A sink that is wrapped cannot be told to flush.
func unbuffered(options *logs.Options) {
	options.Options.Text.InfoBufferSize, options.Options.JSON.InfoBufferSize = resource.QuantityValue{}, resource.QuantityValue{}
}

// omitBodies keeps bodies out of the logs of this process, in text and in JSON. It is called when the logging was set up.
func omitBodies() {
	filterBodies()
	sink := klog.Background().GetSink()
	if _, done := sink.(filteredSink); done || reflect.TypeOf(sink) == reflect.TypeOf(klog.NewKlogr().GetSink()) {
		return // what goes through klog itself passes the filter
	}
	options := []klog.LoggerOption{klog.ContextualLogger(true)}
	if text, ok := sink.(textlogger.KlogBufferWriter); ok {
		options = append(options, klog.WriteKlogBuffer(text.WriteKlogBuffer))
	}
	klog.SetLoggerWithOptions(logr.New(filteredSink{LogSink: sink, values: withoutBody}), options...)
}

// filterBodies acts once in a process: klog reads its filter without a lock, and a second manager in a program starts while the first one logs.
var filterBodies = sync.OnceFunc(func() { klog.SetLogFilter(bodyFilter{}) })

// withoutBody returns the keys and values of a message, with what a body is replaced.
func withoutBody(message string, keysAndValues []any) []any {
	if message != requestBody && message != responseBody {
		return keysAndValues
	}
	kept := slices.Clone(keysAndValues)
	for i := 0; i+1 < len(kept); i += 2 {
		if kept[i] == bodyKey && kept[i+1] != "" {
			kept[i+1] = omittedBody
		}
	}
	return kept
}

// bodyFilter is the filter of what klog writes itself.
type bodyFilter struct{}

var _ klog.LogFilter = bodyFilter{}

// Filter implements klog.LogFilter.
func (bodyFilter) Filter(args []any) []any { return args }

// FilterF implements klog.LogFilter.
func (bodyFilter) FilterF(format string, args []any) (string, []any) { return format, args }

// FilterS implements klog.LogFilter.
func (bodyFilter) FilterS(message string, keysAndValues []any) (string, []any) {
	return message, withoutBody(message, keysAndValues)
}

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
