package classify

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// retryAfterOf returns how long a response asks to wait, zero if it does not say (RFC 9110, section 10.2.3).
func retryAfterOf(header http.Header) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if at, err := http.ParseTime(value); err == nil {
		return bounded(time.Until(at))
	}
	wait, _ := waitAt(value, true)
	return wait
}

// saysRetryAfter finds where a text says how long to wait: as the header, as a field of JSON, or in words.
var saysRetryAfter = regexp.MustCompile(`(?i)\b(?:(retry[ _-]?after(?:[ _-]?seconds)?["'\\]{0,2}\s*[:=]|retry_?delay["'\\]{0,2}\s*[:=])` +
	`|retry[ _-]?after|(?:re)?try(?: again)? (?:in|after))["'\s\\\[]*`)

// retryAfterIn returns how long a text asks to wait, zero if it does not say. If it says so more than once, the longest counts.
func retryAfterIn(text string) time.Duration {
	var longest time.Duration
	for _, found := range saysRetryAfter.FindAllStringSubmatchIndex(text, -1) {
		if wait, ok := waitAt(text[found[1]:], found[2] >= 0); ok {
			longest = max(longest, wait)
		}
	}
	return longest
}

var (
	startsWithDate = regexp.MustCompile(`^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT`)
	startsWithTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`)
	startsWithWait = regexp.MustCompile(`^(\d+(?:\.\d+)?)(["'\\]{0,2}\s*)([a-zA-Zµμ]*)`)
	endsNumber     = regexp.MustCompile(`^(?:$|[\s,;:)\]}"'\\]|\.(?:\D|$))`)
)

// units are the units of time in which clouds and Go say how long to wait.
var units = map[string]time.Duration{
	"ns": time.Nanosecond, "nanosecond": time.Nanosecond, "nanoseconds": time.Nanosecond,
	"us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "microsecond": time.Microsecond, "microseconds": time.Microsecond,
	"ms": time.Millisecond, "milli": time.Millisecond, "millis": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

// waitAt reads the wait that a text starts with, within bounds: a date, or numbers with units such as 1m30s. A number without a unit is seconds,
// as in the header; in words, where something else follows it, it is no time at all ("retry after 3 attempts").
func waitAt(text string, header bool) (time.Duration, bool) {
	if date := startsWithDate.FindString(text); date != "" {
		at, err := http.ParseTime(date)
		return bounded(time.Until(at)), err == nil
	}
	if stamp := startsWithTime.FindString(text); stamp != "" {
		at, err := time.Parse(time.RFC3339, stamp)
		return bounded(time.Until(at)), err == nil
	}
	var sum float64
	for pieces := 0; ; pieces++ {
		found := startsWithWait.FindStringSubmatch(text)
		if found == nil {
			return boundedFloat(sum), pieces > 0
		}
		number, _ := strconv.ParseFloat(found[1], 64) // infinite where it is too large
		unit, known := units[strings.ToLower(found[3])]
		switch {
		case known && endsUnit(text[len(found[0]):]):
			sum += number * float64(unit)
		case pieces > 0:
			return boundedFloat(sum), true
		case found[3] != "" && (found[2] == "" || !header), !endsNumber.MatchString(text[len(found[1]):]):
			return 0, false
		default:
			return boundedFloat(number * float64(time.Second)), true
		}
		text = strings.TrimPrefix(text[len(found[0]):], " ")
	}
}

// endsUnit reports whether a unit is over: the end of the text, what ends a number, or the next number.
func endsUnit(rest string) bool {
	return endsNumber.MatchString(rest) || rest[0] >= '0' && rest[0] <= '9'
}

func boundedFloat(nanoseconds float64) time.Duration {
	return time.Duration(min(nanoseconds, float64(MaxRetryAfter)))
}
