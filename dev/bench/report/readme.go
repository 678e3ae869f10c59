package report

import (
	"fmt"
	"strings"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// The lines of the README between which its table of the benchmark stands.
const (
	readmeBegins = "<!-- The benchmark's table begins: `make bench` writes it. -->\n"
	readmeEnds   = "<!-- The benchmark's table ends. -->\n"
)

// readmeRows are the scenarios that the README shows, as it calls them.
var readmeRows = []struct{ scenario, title string }{
	{"join-1000", "1,000 nodes join"},
	{figures.JoinRouted, "the same with pod CIDRs, until each has its route"},
	{"quota-600", "600 nodes join under a quota of 20 calls a second"},
	{figures.NotReady, "1,000 nodes fall silent, half of them gone"},
	{figures.NotReadyAtOnce, "the same, without a time between the two denials"},
	{"services-200", "200 Services get an address"},
	{"leader-sigterm", "the leader gets SIGTERM, and a node joins"},
	{"leader-sigkill", "the leader's container is killed, and a node joins"},
}

// readmeColumns are the variants that the README shows, as it calls them.
var readmeColumns = []struct{ variant, title string }{
	{figures.ReferenceDefault, "reference"},
	{figures.MooringDefault, "Mooring"},
	{figures.ReferenceTuned, "reference, tuned"},
	{figures.MooringPlain, "Mooring, same flags"},
	{figures.MooringBulk, "Mooring, plugin that lists"},
}

// ReplaceReadme returns the README with the table of a report in place of the one that it shows. It is an error if it shows none.
func ReplaceReadme(page string, measured figures.Report) (string, error) {
	before, rest, begins := strings.Cut(page, readmeBegins)
	_, after, ends := strings.Cut(rest, readmeEnds)
	if !begins || !ends {
		return "", fmt.Errorf("README.md has no lines %q and %q", strings.TrimSpace(readmeBegins), strings.TrimSpace(readmeEnds))
	}
	head := []string{""}
	for _, column := range readmeColumns {
		head = append(head, column.title)
	}
	rows := [][]string{head}
	for _, row := range readmeRows {
		cells := []string{row.title}
		for _, column := range readmeColumns {
			cell := "–"
			if result, found := measured.Find(row.scenario, column.variant); found {
				cell = timeText(result)
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	return before + readmeBegins + "\n" + table(rows...) + "\n" + readmeEnds + after, nil
}
