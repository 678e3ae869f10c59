// Package schedule is what happens in a chaos run, and when: an ordered list of operations, made from a seed or read from a text. It
// does nothing itself: package runner carries the operations out.
//
// A schedule is a text with one operation a line:
//
//	# why this is worth keeping
//	0s       nodes-join names=n-001,n-002
//	0s       services-create names=s-001
//	0s       converge
//	4.2s     cloud-status operation=ListInstances code=503 for=6s
//	9s       manager-kill replica=leader for=2s
package schedule

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Operation is one thing that happens.
type Operation struct {
	// At is when, since the schedule began. While the run waits in a converge, no time passes.
	At time.Duration
	// Verb is what happens: the Name of a Kind.
	Verb string
	// Args say to what and how.
	Args map[string]string
}

// Schedule is what happens in a run, by time.
type Schedule []Operation

// For returns how long the operation lasts; zero if it is over at once.
func (o Operation) For() time.Duration {
	d, _ := time.ParseDuration(o.Args[ArgFor]) // Parse and Validate accept no other
	return d
}

// Names returns the objects that the operation is about.
func (o Operation) Names() []string {
	if o.Args[ArgNames] == "" {
		return nil
	}
	return strings.Split(o.Args[ArgNames], ",")
}

// Number returns an argument that is a number; zero if it is not there.
func (o Operation) Number(arg string) int {
	n, _ := strconv.Atoi(o.Args[arg]) // Parse and Validate accept no other
	return n
}

// String returns the operation as a line of a schedule.
func (o Operation) String() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%-9s %s", o.At, o.Verb)
	for _, name := range slices.Sorted(maps.Keys(o.Args)) {
		fmt.Fprintf(&line, " %s=%s", name, o.Args[name])
	}
	return line.String()
}

// String returns the schedule as a text that Parse reads.
func (s Schedule) String() string {
	var text strings.Builder
	for _, o := range s {
		text.WriteString(o.String() + "\n")
	}
	return text.String()
}

// End returns when the last operation is over.
func (s Schedule) End() time.Duration {
	var end time.Duration
	for _, o := range s {
		end = max(end, o.At+o.For())
	}
	return end
}

// Parse reads a schedule. The error names every line that is wrong.
func Parse(text io.Reader) (Schedule, error) {
	var parsed Schedule
	var wrong []error
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20) // a mass event names thousands of objects
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		o, err := parseLine(line)
		if err == nil {
			err = o.validate()
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		if len(parsed) > 0 && o.At < parsed[len(parsed)-1].At {
			wrong = append(wrong, fmt.Errorf("line %d: %s is before the line above", number, o.At))
		}
		parsed = append(parsed, o)
	}
	return parsed, errors.Join(append(wrong, lines.Err())...)
}

func parseLine(line string) (Operation, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return Operation{}, errors.New("a line is a time, a verb and arguments: 4.2s nodes-leave names=n-001")
	}
	at, err := time.ParseDuration(fields[0])
	if err != nil || at < 0 {
		return Operation{}, fmt.Errorf("%q is no time since the beginning, such as 4.2s", fields[0])
	}
	o := Operation{At: at, Verb: fields[1], Args: map[string]string{}}
	for _, field := range fields[2:] {
		name, value, found := strings.Cut(field, "=")
		if _, twice := o.Args[name]; twice || !found || value == "" {
			return o, fmt.Errorf("argument %q: must be NAME=VALUE, and each name once", field)
		}
		o.Args[name] = value
	}
	return o, nil
}

// validate returns everything that is wrong with an operation.
func (o Operation) validate() error {
	kind, known := KindOf(o.Verb)
	if !known {
		return fmt.Errorf("there is no operation %q", o.Verb)
	}
	var wrong []error
	for _, name := range kind.Required {
		if o.Args[name] == "" {
			wrong = append(wrong, fmt.Errorf("%s: the argument %s is missing", o.Verb, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Args)) {
		if !slices.Contains(kind.Required, name) && !slices.Contains(kind.Optional, name) {
			wrong = append(wrong, fmt.Errorf("%s has no argument %s", o.Verb, name))
		}
		wrong = append(wrong, validateArg(name, o.Args[name]))
	}
	return errors.Join(wrong...)
}

func validateArg(name, value string) error {
	switch name {
	case ArgFor:
		if d, err := time.ParseDuration(value); err != nil || d <= 0 {
			return fmt.Errorf("%s=%s: must be a duration above 0, such as 4.2s", name, value)
		}
	case ArgCode, ArgCount:
		if n, err := strconv.Atoi(value); err != nil || n < 1 {
			return fmt.Errorf("%s=%s: must be a number above 0", name, value)
		}
	case ArgReplica:
		if !slices.Contains(replicas, value) {
			return fmt.Errorf("%s=%s: must be one of %s", name, value, strings.Join(replicas, ", "))
		}
	case ArgSide:
		if !slices.Contains(sides, value) {
			return fmt.Errorf("%s=%s: must be one of %s", name, value, strings.Join(sides, ", "))
		}
	}
	return nil
}
