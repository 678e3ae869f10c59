package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
	"time"
)

// Outcome is what came of a rule.
type Outcome string

// The outcomes of a rule.
const (
	// Passed means that the rule was tried and nothing was seen that breaks it.
	Passed Outcome = "passed"
	// Failed means that the provider breaks the rule.
	Failed Outcome = "failed"
	// NotRun means that the rule was not tried: the subject does not offer what it needs, or it was left out.
	NotRun Outcome = "not run"
	// Broken means that it is not known whether the rule holds: the factory or a hook failed, what the rule makes was there
	// already, or the run was interrupted.
	Broken Outcome = "broken"
)

// Result is what came of one rule.
type Result struct {
	Rule    Rule
	Outcome Outcome
	// Reason says why the rule was not run, or what broke.
	Reason string
	// Findings are what was seen that breaks the rule, in the order in which it was seen.
	Findings []string
	// NotRemoved are what the rule made and could not remove, each with the reason.
	NotRemoved []string
	// Duration is how long it took.
	Duration time.Duration
}

// OK reports whether nothing was found wrong with the provider: the rule holds or was not run, and nothing was left behind.
func (r Result) OK() bool {
	return (r.Outcome == Passed || r.Outcome == NotRun) && len(r.NotRemoved) == 0
}

// Run tries the rules as subtests, each with the rule's ID as its name. A rule that is not run is a skipped test.
func Run(t *testing.T, factory Factory, options Options) {
	t.Helper()
	options, err := options.complete()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range options.selected() {
		t.Run(rule.ID, func(t *testing.T) {
			result := try(t.Context(), rule, factory, options)
			if options.Progress != nil {
				options.Progress(result)
			}
			switch {
			case !result.OK():
				t.Error(result.details())
			case result.Outcome == NotRun:
				t.Skip(result.Reason)
			}
		})
	}
}

// Check tries the rules one after the other and returns a result for each. An error means that the options are wrong. When ctx ends, Check
// reports the current rule and all rules after it as broken.
func Check(ctx context.Context, factory Factory, options Options) (*Report, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	report := &Report{RunID: options.RunID, Started: time.Now()}
	for _, rule := range options.selected() {
		result := try(ctx, rule, factory, options)
		report.Results = append(report.Results, result)
		if options.Progress != nil {
			options.Progress(result)
		}
	}
	return report, nil
}

// try tries one rule on a subject of its own, and removes what it made.
func try(ctx context.Context, rule Rule, factory Factory, options Options) (result Result) {
	started := time.Now()
	result.Rule = rule
	defer func() { result.Duration = time.Since(started) }()
	if reason, skipped := options.Skip[rule.ID]; skipped {
		result.Outcome, result.Reason = NotRun, "left out: "+reason
		return result
	}
	if ctx.Err() != nil {
		result.Outcome, result.Reason = Broken, "the run was interrupted"
		return result
	}
	subject, err := factory(ctx)
	if err == nil && (subject == nil || subject.Cloud == nil) {
		err = errors.New("it returned no provider, and no error")
	}
	if err != nil {
		result.Outcome, result.Reason = Broken, fmt.Sprintf("the factory: %v", err)
		return result
	}
	tryOn(ctx, subject, options, &result)
	if subject.Close != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), options.RuleTimeout)
		defer cancel()
		if err := subject.Close(closing); err != nil {
			result.NotRemoved = append(result.NotRemoved, fmt.Sprintf("closing the subject: %v", err))
		}
	}
	return result
}

// tryOn tries the result's rule on a subject.
func tryOn(ctx context.Context, subject *Subject, options Options, result *Result) {
	if reason := missing(subject, result.Rule.Needs); reason != "" {
		result.Outcome, result.Reason = NotRun, reason
		return
	}
	t := newTrial(subject, options, result.Rule.ID)
	trying, cancel := context.WithTimeout(t.withCluster(ctx), options.RuleTimeout)
	before := races()
	err := guarded(func() error { return result.Rule.check(trying, t) })
	cut := trying.Err() != nil
	cancel()
	if found := races() - before; found > 0 {
		t.sawf("the race detector found %d data races; they are on standard error", found)
	}
	result.NotRemoved = t.cleanUp(ctx, cut)

	var unavailable *unavailableError
	var broken *brokenError
	switch {
	case ctx.Err() != nil:
		result.Outcome, result.Reason = Broken, "the run was interrupted"
		return
	case errors.As(err, &unavailable):
		result.Outcome, result.Reason = NotRun, err.Error()
	case errors.As(err, &broken):
		result.Outcome, result.Reason = Broken, err.Error()
	case err != nil:
		t.sawf("%v", err)
	}
	result.Findings = t.findings
	if len(t.findings) > 0 {
		result.Outcome = Failed
	} else if result.Outcome == "" {
		result.Outcome = Passed
	}
}

// guarded turns a panic of the provider into an error: the other rules, and the removal of what was made, go on.
func guarded(call func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the provider panicked: %v\n%s", reason, debug.Stack())
		}
	}()
	return call()
}
