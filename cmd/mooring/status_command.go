package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// statusFlags are the flags of status.
type statusFlags struct {
	access  access
	lease   lease
	schemes []string
	output  cli.Output
	all     bool
	html    string
	// watch shows the status again after each interval.
	watch    bool
	interval time.Duration
	// objects are asked for by name; empty: all.
	objects []objectName
}

// objectName is a node, or with a namespace a Service.
type objectName struct{ namespace, name string }

// parseObjects reads node/NAME and service/NAMESPACE/NAME.
func parseObjects(args []string) (objects []objectName, err error) {
	var wrong []error
	for _, arg := range args {
		kind, rest, _ := strings.Cut(arg, "/")
		namespace, name, namespaced := strings.Cut(rest, "/")
		switch {
		case slices.Contains([]string{"node", "nodes", "no"}, kind) && rest != "" && !namespaced:
			objects = append(objects, objectName{name: rest})
		case slices.Contains([]string{"service", "services", "svc"}, kind) && namespace != "" && name != "" && !strings.Contains(name, "/"):
			objects = append(objects, objectName{namespace, name})
		default:
			wrong = append(wrong, fmt.Errorf("%q: must be node/NAME or service/NAMESPACE/NAME", arg))
		}
	}
	return objects, errors.Join(wrong...)
}

func newStatus() *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use:   "status [node/NAME | service/NAMESPACE/NAME]...",
		Short: "Show what the nodes and load balancers of a cluster are waiting for",
		Long: `status reads from the API server who leads, and why nodes, Services with a load balancer and routes are not as they should be.

With --port-forward or --server it also asks a manager, at its secure port, what its calls to the cloud wait for, and what it has found to
differ. That takes "get" on the URL /metrics, and a second: calls are counted meanwhile. With --port-forward the leader's pod is reached
through the API server, if it has the key that the lease names. It gets a token of its own account, which then needs that right, and none of
your credentials.

Of a node or Service that is named it shows more: what decides about it, its last events, and what helps. Of more than 20 nodes, or
Services, it shows those with problems, and counts all by zone and state.

With --html it writes a page that a browser shows. The page is complete in itself and loads nothing.

What you may not read is left out, and said so. Nodes of other providers are recognized by the annotation
mooring.dev/ignore, and by --provider-id-schemes.

Exit codes:
  0    the status was shown, whatever it says
  1    something failed; the last line on standard error says what
  2    the command line is wrong, or nothing could be read
  130  interrupted by a signal before it was through`,
		Example: `  mooring status
  mooring status --server=https://192.0.2.10:10258 --certificate-authority=ca.pem
  mooring status node/worker-1 service/shop/web
  mooring status --port-forward --watch
  mooring status --port-forward --html=status.html
  mooring status --output=json | jq '.nodes[] | select(.state == "held")'
  mooring status --output=jsonpath='{.nodes[?(@.state=="held")].name}'`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	f.access.addFlags(cmd, "")
	f.lease.addFlag(flags)
	addSchemes(flags, &f.schemes)
	f.output.AddFlag(cmd)
	flags.StringVar(&f.html, "html", "", "write the status as a page for a browser to this `file`, in place of the text; - is standard output")
	_ = cmd.MarkFlagFilename("html", "html")
	flags.BoolVarP(&f.watch, "watch", "w", false, "show the status again and again, until Ctrl-C")
	flags.DurationVar(&f.interval, "interval", 5*time.Second, "how long to wait between two looks with --watch, at least 1s")
	flags.BoolVar(&f.all, "all", false, "show all rows of long tables, not only those with problems")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command, args []string) error {
	namespace, name, err := f.lease.parts()
	wrong := []error{f.access.validate(), f.output.Validate(), err}
	if f.objects, err = parseObjects(args); err != nil {
		wrong = append(wrong, err)
	}
	if f.html != "" && len(args) > 0 {
		wrong = append(wrong, errors.New("--html: not for single objects"))
	}
	if f.interval < time.Second {
		wrong = append(wrong, fmt.Errorf("--interval: %s: must be at least 1s", f.interval))
	}
	if f.access.server == "" && !f.access.forwarding && (f.access.authority != "" || f.access.insecure) {
		wrong = append(wrong, errors.New("--certificate-authority, --insecure-skip-tls-verify: only with --server"))
	}
	if text, _ := f.output.ForPeople(); f.html != "" && !text {
		wrong = append(wrong, errors.New("--html, --output: only one of them"))
	}
	if err := errors.Join(wrong...); err != nil {
		return cli.Usage(cmd, err)
	}
	look, stop, err := f.look(cmd.Context(), namespace, name)
	if err == nil {
		defer stop()
		if text, _ := f.output.ForPeople(); f.watch && f.html == "" && text && f.onScreen(cmd.OutOrStdout()) {
			_, _ = io.WriteString(cmd.OutOrStdout(), enterScreen)
			defer func() { _, _ = io.WriteString(cmd.OutOrStdout(), leaveScreen) }()
		}
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

// What a terminal does by ECMA-48 and xterm's private modes: --watch uses the alternate screen, without the wrapping of long lines, so the
// user's own lines are back at the end.
const (
	clearScreen = "\x1b[H\x1b[J"
	enterScreen = "\x1b[?1049h\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?1049l"
)

// onScreen reports whether an output is a terminal that can be cleared.
func (f *statusFlags) onScreen(out io.Writer) bool {
	return onTerminal(out) && os.Getenv("TERM") != "dumb"
}

// screen is what a terminal of some lines shows of a text: its beginning, and how much is left out.
func screen(text string, lines int) string {
	all := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if lines < 2 || len(all) <= lines {
		return clearScreen + strings.TrimSuffix(text, "\n")
	}
	return clearScreen + strings.Join(all[:lines-1], "") + words.Count(len(all)-lines+1, "more line", "more lines")
}

// height is how many lines a terminal has, zero if that is not known.
func height(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok {
		return 0
	}
	_, lines, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return lines
}

// show reads the status and shows it once.
func (f *statusFlags) show(cmd *cobra.Command, look *look, progress io.Writer) error {
	seen, err := look.all(cmd.Context(), progress)
	if err != nil {
		return err
	}
	status, out := view.Of(seen), cmd.OutOrStdout()
	if len(f.objects) > 0 {
		status.AddDetails(seen)
	}
	if f.html != "" {
		return f.page(out, status, seen)
	}
	if text, wide := f.output.ForPeople(); text {
		style := view.Style{Color: colored(out), All: wide, EveryRow: f.all, ProblemsFirst: f.watch}
		shown := status.Text(style)
		if len(f.objects) > 0 {
			shown = status.Details(style)
		}
		if f.watch && f.onScreen(out) {
			shown = screen(shown, height(out))
		}
		_, err = io.WriteString(out, shown)
	} else {
		err = f.output.Print(out, &statusDocument{TypeMeta: cli.TypeMeta("Status"), Status: status})
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if status.Leader == nil && status.Nodes == nil && status.Services == nil && status.Manager == nil {
		return cli.Unseen(errors.New("nothing could be read"))
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

// writePrivate writes a file that only the user may read, because it holds names of nodes, addresses and errors of the cloud. It replaces
// the file at the path, and so never follows a symbolic link that another user left in a shared folder.
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
