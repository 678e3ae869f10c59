package kit

import "time"

// Row is a row of failures of one object or operation. Its zero value is none.
type Row struct {
	// Count is how many there were, one after the other.
	Count int
	// Until is when the next try is due.
	Until time.Time
}

// Failed returns the row with a failure more.
func (r Row) Failed(now time.Time, pauses Backoff, err error) Row {
	return Row{Count: r.Count + 1, Until: now.Add(pauses.After(r.Count, err))}
}

// Rests reports whether the next try is not due yet.
func (r Row) Rests(now time.Time) bool { return now.Before(r.Until) }
