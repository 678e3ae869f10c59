package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// junitSuite is the document, written by encoding/xml: the libraries for JUnit write another root element, and would be one more module for the
// test of every provider.
type junitSuite struct {
	XMLName   xml.Name    `xml:"testsuite"`
	Name      string      `xml:"name,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Time      string      `xml:"time,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitMessage `xml:"failure,omitempty"`
	Error     *junitMessage `xml:"error,omitempty"`
	Skipped   *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML, which CI systems show: a test suite with a test case for each rule. A rule that
// failed is a failure, one that broke or left something behind is an error, one that was not run is skipped.
func (r *Report) WriteJUnit(to io.Writer, suite string) error {
	document := junitSuite{Name: suite, Timestamp: r.Started.UTC().Format(time.RFC3339), Tests: len(r.Results)}
	var total time.Duration
	for _, result := range r.Results {
		total += result.Duration
		test := result.junit(suite)
		document.Cases = append(document.Cases, test)
		switch {
		case test.Failure != nil:
			document.Failures++
		case test.Error != nil:
			document.Errors++
		case test.Skipped != nil:
			document.Skipped++
		}
	}
	document.Time = seconds(total)
	if _, err := io.WriteString(to, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(to)
	encoder.Indent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return err
	}
	_, err := io.WriteString(to, "\n")
	return err
}

func (r Result) junit(suite string) junitCase {
	test := junitCase{Name: r.Rule.ID, ClassName: suite + "." + r.area(), Time: seconds(r.Duration)}
	message := &junitMessage{Message: r.Rule.Text, Text: r.details()}
	switch {
	case r.Outcome == Failed:
		test.Failure = message
	case !r.OK():
		test.Error = message
	case r.Outcome == NotRun:
		test.Skipped = &junitMessage{Message: r.Reason}
	}
	return test
}

// area is what the rule is about, the first word of its ID.
func (r Result) area() string {
	area, _, _ := strings.Cut(r.Rule.ID, "-")
	return area
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
