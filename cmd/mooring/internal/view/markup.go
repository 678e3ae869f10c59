package view

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
)

// literal is HTML, or a format of it, that is written in this package: only constants become one without a conversion.
type literal string

// markup is HTML in the making. It does without html/template: that calls methods by names that the linker cannot know, which keeps every
// exported method of every linked library in the program, 27 MB of the tool.
type markup struct{ out strings.Builder }

// add writes a format with its arguments. Texts are made printable and are escaped, as html.EscapeString does it: a format may have them
// between elements and in quoted attributes, and nowhere else.
func (m *markup) add(format literal, arguments ...any) {
	for i, argument := range arguments {
		switch argument.(type) {
		case int, int32, float64:
		default:
			arguments[i] = html.EscapeString(Printable(fmt.Sprint(argument)))
		}
	}
	fmt.Fprintf(&m.out, string(format), arguments...)
}

// addIf writes a format if something holds.
func (m *markup) addIf(holds bool, format literal, arguments ...any) {
	if holds {
		m.add(format, arguments...)
	}
}

// table writes a card with a table: its heads and its rows.
func (m *markup) table(heads literal, rows func()) {
	m.add("<div class=\"card table\"><table>\n<tr>" + heads + "</tr>\n")
	rows()
	m.add("</table></div>\n")
}

// choice is one of two words.
func choice(holds bool, word, otherwise string) string {
	if holds {
		return word
	}
	return otherwise
}

// class is a state as the name of a class.
func class(state NodeState) string { return strings.ReplaceAll(string(state), " ", "-") }

//go:embed page.css
var pageStyle literal

// html is the page, which is complete in itself: no script, no font and no picture is loaded from anywhere. See ADR 82.
func (p page) html() string {
	m := &markup{}
	m.add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Mooring status`)
	m.addIf(p.Cluster != "", ": %s", p.Cluster)
	m.add("</title>\n<style>\n")
	m.out.WriteString(string(pageStyle))
	m.add("</style>\n</head>\n<body>\n<main>\n<header>\n  <h1>Mooring status</h1>")
	m.addIf(p.Cluster != "", "<span>%s</span>", p.Cluster)
	m.add("\n  <span class=\"soft\">%s</span>\n</header>\n", p.Time.UTC().Format("2006-01-02 15:04:05 MST"))
	for _, write := range []func(*markup){
		p.writeSummary, p.writeWaiting, p.writeZones, p.writeServices, p.writeRoutes, p.writeSessions, p.writeCalls, p.writeEvents, p.writeNodes,
	} {
		write(m)
	}
	m.addIf(p.Manager == nil, "<p class=\"soft\">No manager was asked. Routes, calls to the cloud and BGP sessions are added by --port-forward or --server.</p>\n")
	m.add("</main>\n</body>\n</html>\n")
	return m.out.String()
}

func (p page) writeSummary(m *markup) {
	if len(p.Problems) > 0 {
		m.add(`<p class="card leader bad">`)
		for _, problem := range p.Problems {
			m.add("<b>Problem</b> &nbsp;%s<br>", problem)
		}
		m.add("</p>\n")
	}
	m.add("<p class=\"card leader%s\"><b>Leader</b> &nbsp;%s</p>\n<div class=\"tiles\">\n", choice(p.Leads, "", " bad"), p.Leader)
	for _, one := range p.Tiles {
		m.add("  <div class=\"card tile %s\"><span>%s</span><b>%s</b><span>%s</span></div>\n", one.Kind, one.Name, one.Value, one.Note)
	}
	m.add("</div>\n")
	for _, refusal := range p.Refusals {
		m.add("<p class=\"card leader bad\"><b>Cloud config refused</b> &nbsp;%s: %s</p>\n", refusal.Object, refusal.Message)
	}
	if len(p.Unknown) > 0 {
		m.add("<h2>Not known</h2>\n<div class=\"card\"><ul class=\"unknown\">")
		for _, unknown := range p.Unknown {
			m.add("<li>%s</li>", unknown)
		}
		m.add("</ul></div>\n")
	}
}

func (p page) writeWaiting(m *markup) {
	if len(p.Waiting) == 0 {
		return
	}
	m.add("<h2>Nodes with problems <small>the gravest first</small></h2>\n")
	m.table(`<th>Node</th><th>State</th><th class="number">For</th><th>Zone</th><th>Route</th><th>Why</th>`, func() {
		for _, node := range p.Waiting {
			state := choice(node.Denied, "denied", choice(node.State == NodeInitialized, "no route", string(node.State)))
			m.add(`<tr><td class="name">%s</td><td><span class="pill %s">%s</span></td><td class="number short">%s</td>`,
				node.Name, choice(node.State == NodeHeld, "bad", "doubtful"), state, node.For)
			m.add("<td class=\"short\">%s</td><td>%s</td><td class=\"why\">%s</td></tr>\n", node.Zone, node.Route(), node.Why)
		}
	})
	m.addIf(p.More > 0, "<p class=\"soft\">%d more are in the list of all nodes below.</p>\n", p.More)
}

func (p page) writeZones(m *markup) {
	if len(p.Zones) == 0 {
		return
	}
	m.add("<h2>Nodes by zone <small>a square is a node; its name shows when you point at it</small></h2>\n<div class=\"zones\">\n")
	for _, zone := range p.Zones {
		m.add("  <section class=\"card zone\">\n    <header><h3>%s</h3><span class=\"soft\">%d nodes",
			choice(zone.Name == "", "without a zone", zone.Name), zone.Nodes)
		m.addIf(zone.Problems > 0, ", %d with problems", zone.Problems)
		m.add("</span></header>\n    <div class=\"bar\">")
		for _, part := range zone.Segments {
			m.add(`<div class="%s" style="width: %v%%" title="%d %s"></div>`, class(part.State), part.Wide, part.Count, part.State)
		}
		m.add("</div>\n    <svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"nodes by state\">\n", zone.Width, zone.Height)
		for _, node := range zone.Squares {
			m.add(`<rect class="%s%s" x="%d" y="%d" width="10" height="10" rx="2">`, class(node.State), choice(node.Unrouted, " unrouted", ""), node.X, node.Y)
			m.add("<title>%s: %s%s</title></rect>\n", node.Name, node.State, choice(node.Unrouted, ", no route", ""))
		}
		m.add("    </svg>\n  </section>\n")
	}
	m.add("</div>\n<p class=\"legend\">")
	for _, state := range p.States {
		m.add(`<span><i class="%s"></i>%s</span>`, class(state), state)
	}
	m.addIf(p.Unrouted, `<span><i class="frame"></i>no route</span>`)
	m.add("</p>\n")
}

func (p page) writeServices(m *markup) {
	if len(p.Services) == 0 {
		return
	}
	m.add("<h2>Load balancers")
	if p.Manager != nil && p.Manager.Targets != nil {
		m.add(" <small>%d nodes are targets of each</small>", *p.Manager.Targets)
	}
	m.add("</h2>\n")
	m.table(`<th>Service</th><th>State</th><th class="number">For</th><th>Addresses</th><th>Why</th>`, func() {
		for _, one := range p.Services {
			kind := choice(one.Problem, "bad", choice(one.State == ServiceReady, "good", ""))
			m.add(`<tr><td class="name">%s/%s</td><td><span class="pill %s">%s</span></td><td class="number short">%s</td>`,
				one.Namespace, one.Name, kind, one.State, one.For)
			m.add("<td class=\"id\">%s</td><td class=\"why\">%s</td></tr>\n", strings.Join(one.Addresses, ", "), one.Why)
		}
	})
}

func (p page) writeRoutes(m *markup) {
	routes := p.Routes
	if routes == nil {
		return
	}
	m.add("<h2>Routes</h2>\n<div class=\"card\">\n<p style=\"margin-top: 0\">%d in the cloud", routes.Listed)
	m.addIf(routes.Limit > 0, " of %d that it takes", routes.Limit)
	m.add(", %d missing</p>\n", routes.Missing)
	m.addIf(routes.Limit > 0, `<div class="bar"><div class="%s" style="width: %v%%"></div></div>`, choice(routes.Full, "full", "fill"), routes.Percent)
	m.add("</div>\n")
}

func (p page) writeSessions(m *markup) {
	if len(p.Sessions) == 0 {
		return
	}
	m.add("<h2>BGP sessions <small>of the replica that was asked</small></h2>\n")
	m.table(`<th>Router</th><th>Session</th><th class="number">For</th><th class="number">Prefixes</th><th class="number">Went down</th>`+
		`<th class="number">Paths</th><th>Problems</th>`, func() {
		for _, one := range p.Sessions {
			m.add(`<tr><td class="name">%s</td><td><span class="pill %s">%s</span></td><td class="number short">%s</td>`,
				one.Peer, choice(one.Good, "good", "bad"), one.State, one.For)
			m.add("<td class=\"number\">%d</td><td class=\"number\">%d times</td><td class=\"number\">%d</td><td>%s</td></tr>\n",
				one.Prefixes, one.Flaps, one.Paths, strings.Join(one.Problems, ", "))
		}
	})
}

func (p page) writeCalls(m *markup) {
	if len(p.Groups) == 0 && len(p.Calls) == 0 {
		return
	}
	m.add("<h2>Calls to the cloud</h2>\n<div class=\"columns\">\n")
	if len(p.Groups) > 0 {
		m.table(`<th>Group</th><th class="number">Limit a second</th><th class="number">Under way</th><th class="number">Waiting</th><th class="number">Refused</th>`,
			func() { p.writeGroups(m) })
	}
	if len(p.Calls) > 0 {
		m.table(`<th>Method</th><th class="number">Calls</th><th class="number">Errors</th><th class="number">A second</th><th style="width: 35%%"></th>`,
			func() { p.writeOperations(m) })
	}
	m.add("</div>\n")
}

func (p page) writeGroups(m *markup) {
	for _, one := range p.Groups {
		m.add(`<tr><td class="name">%s`, one.Name)
		m.add(`</td><td class="number">`)
		m.addIf(one.Limit != 0, "%.1f", one.Limit)
		m.addIf(one.Limit == 0, "none")
		m.add("</td><td class=\"number\">%d</td><td class=\"number\">%d</td><td class=\"number\">%d</td></tr>\n", one.InFlight, one.Waiting, one.Refuse)
	}
}

func (p page) writeOperations(m *markup) {
	for _, one := range p.Calls {
		m.add(`<tr><td class="name short">%s</td><td class="number">%d</td><td class="number">%d</td><td class="number">%.1f</td>`,
			one.Name, one.Calls, one.Errors, one.PerSecond)
		m.add("<td style=\"vertical-align: middle\"><div class=\"bar\"><div class=\"fill\" style=\"width: %v%%\"></div><div class=\"wrong\" style=\"width: %v%%\"></div></div></td></tr>\n",
			one.Percent, one.Wrong)
	}
}

func (p page) writeEvents(m *markup) {
	if len(p.Events) == 0 {
		return
	}
	m.add("<h2>Last events <small>the newest first</small></h2>\n")
	m.table(`<th class="number">Ago</th><th>Object</th><th>Reason</th><th>Message</th>`, func() {
		for _, event := range p.Events {
			m.add(`<tr><td class="number short">%s</td><td class="name">%s %s</td><td><span class="pill %s">%s</span>`,
				event.Ago, event.Kind, event.Object, choice(event.Warning, "doubtful", ""), event.Reason)
			m.addIf(event.Count > 1, ` <span class="soft">%d times</span>`, event.Count)
			m.add("</td><td class=\"why\">%s</td></tr>\n", event.Message)
		}
	})
}

func (p page) writeNodes(m *markup) {
	if len(p.Nodes) == 0 {
		return
	}
	m.add("<details><summary>All %d nodes</summary>\n", len(p.Nodes))
	m.table(`<th>Node</th><th>State</th><th class="number">For</th><th>Zone</th><th>Type</th><th>Provider ID</th>`, func() {
		for _, node := range p.Nodes {
			m.add(`<tr><td class="name">%s</td><td class="short">%s</td><td class="number short">%s</td><td class="short">%s</td>`,
				node.Name, node.State, node.For, node.Zone)
			m.add("<td class=\"short\">%s</td><td class=\"id\">%s</td></tr>\n", node.Type, node.ProviderID)
		}
	})
	m.add("</details>\n")
}
