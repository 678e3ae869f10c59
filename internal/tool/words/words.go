// Package words makes sentences agree with numbers.
package words

import "strconv"

// Count is a number of things: "1 node", "2 nodes", "0 nodes".
func Count[N int | int64](count N, one, many string) string {
	if count == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(int64(count), 10) + " " + many
}
