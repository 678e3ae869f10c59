package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/cli"
)

// statusFlags are the flags of status.
type statusFlags struct {
	access  access
	lease   lease
	schemes []string
	output  output
	all     bool
	html    string
	// watch shows the status again after each interval.
	watch    bool
	interval time.Duration
}

func newStatus() *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the nodes and load balancers of a cluster are waiting for",
		Long: `status reads from the API server who leads, how far each node is and each Service with a load balancer, and why that is so:
nodes that wait for their initialization, that are off, or that are kept although the cloud denies their instances; Services
without an address; nodes without a route.

With --port-forward or --server it also asks a manager, at its secure port, how old its observation of the cloud is, what its calls to the cloud
wait for, and what it has found to differ. That takes "get" on the URL /metrics, and a second: calls are counted meanwhile. With
--port-forward the leader's pod is found by the lease and reached through the API server, from wherever you are. That pod gets a token of its
own account, which then needs that right, and none of your credentials.

Of more than 20 nodes, or Services, those are shown with which something is wrong, and all are counted by zone and state; --all shows
every row.

With --html it writes a page that a browser shows: nodes by zone and state, load balancers, routes, sessions of the provider metal, calls
to the cloud and the last events. The page is complete in itself and loads nothing.

What you may not read is left out, and said so. Nodes of other providers are recognized by the annotation
mooring.dev/ignore, and by --provider-id-schemes.

` + cli.ExitCodes,
		Example: `  mooring status
  kubectl mooring status --context=blue
  mooring status --server=https://192.0.2.10:10258 --certificate-authority=ca.pem
  mooring status --port-forward --watch
  mooring status --port-forward --html=status.html
  mooring status --output=json | jq '.nodes[] | select(.state == "held")'
  mooring status --output=jsonpath='{.nodes[?(@.state=="held")].name}'
  mooring status --output=custom-columns=KIND:.kind,NAME:.name,STATE:.state`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.access.addFlags(flags, "")
	f.lease.addFlag(flags)
	addSchemes(flags, &f.schemes)
	f.output.addFlag(cmd)
	flags.StringVar(&f.html, "html", "", "write the status as a page for a browser to this `file`, in place of the text; - is standard output")
	_ = cmd.MarkFlagFilename("html", "html")
	flags.BoolVarP(&f.watch, "watch", "w", false, "show the status again and again, until Ctrl-C")
	flags.DurationVar(&f.interval, "interval", 5*time.Second, "how long to wait between two looks with --watch, at least 1s")
	flags.BoolVar(&f.all, "all", false, "show all rows of long tables, not only those with problems")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command) error {
	namespace, name, err := f.lease.parts()
	wrong := []error{f.access.validate(), f.output.validate(), err}
	if f.interval < time.Second {
		wrong = append(wrong, fmt.Errorf("--interval: %s: must be at least 1s", f.interval))
	}
	if f.access.server == "" && !f.access.forwarding && (f.access.authority != "" || f.access.insecure) {
		wrong = append(wrong, errors.New("--certificate-authority, --insecure-skip-tls-verify: only with --server"))
	}
	if text, _ := f.output.forPeople(); f.html != "" && !text {
		wrong = append(wrong, errors.New("--html, --output: only one of them"))
	}
	if err := errors.Join(wrong...); err != nil {
		return cli.Usage(cmd, err)
	}
	look, stop, err := f.look(cmd.Context(), namespace, name)
	if err == nil {
		defer stop()
		if err = f.show(cmd, look, cmd.ErrOrStderr()); err == nil && f.watch {
			return f.follow(cmd, look)
		}
	}
	if err != nil && cmd.Context().Err() != nil {
		return cli.Interrupted(fmt.Errorf("interrupted: %w", err))
	}
	return err
}

// follow shows the status again and again until a signal ends it, which is no failure. A failure in between is said, and tried again.
func (f *statusFlags) follow(cmd *cobra.Command, look *look) error {
	again := time.NewTicker(f.interval)
	defer again.Stop()
	for {
		select {
		case <-cmd.Context().Done():
			return nil
		case <-again.C:
			if err := f.show(cmd, look, io.Discard); err != nil && cmd.Context().Err() == nil {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v; trying again\n", cmd.Root().Name(), err)
			}
		}
	}
}

// clearScreen moves the cursor to the first line of a terminal and clears what is below.
const clearScreen = "\x1b[H\x1b[J"

// show reads the status and shows it once.
func (f *statusFlags) show(cmd *cobra.Command, look *look, progress io.Writer) error {
	seen, err := look.all(cmd.Context(), progress)
	if err != nil {
		return err
	}
	status, out := view.Of(seen), cmd.OutOrStdout()
	if f.html != "" {
		return f.page(out, status, seen)
	}
	if text, wide := f.output.forPeople(); text {
		shown := status.Text(view.Style{Color: colored(out), All: wide, EveryRow: f.all})
		if f.watch && onTerminal(out) && os.Getenv("TERM") != "dumb" {
			shown = clearScreen + shown
		}
		_, err = io.WriteString(out, shown)
	} else {
		err = f.output.print(out, &statusDocument{TypeMeta: typeMeta("Status"), Status: status})
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// page writes the status as a page for a browser.
func (f *statusFlags) page(stdout io.Writer, status view.Status, seen view.Seen) error {
	var page bytes.Buffer
	if err := status.HTML(&page, seen, f.access.ClusterName()); err != nil {
		return err
	}
	if f.html == "-" {
		_, err := page.WriteTo(stdout)
		return err
	}
	if err := writePrivate(f.html, page.Bytes()); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	_, err := fmt.Fprintf(stdout, "Wrote %s\n", f.html)
	return err
}

// writePrivate writes a file that only the user may read: names of nodes, addresses and errors of the cloud are nobody else's business. It takes
// the place of what is there, so that a symbolic link which somebody left in a shared folder is not followed.
func writePrivate(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".mooring-*") // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
