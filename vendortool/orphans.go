package vendortool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// defaultClusterName is the default of the manager's --cluster-name.
const defaultClusterName = "kubernetes"

// orphansFlags are the flags of orphans.
type orphansFlags struct {
	account      account
	clusterName  string
	clusterCIDRs []string
	output       cli.Output
	remove, yes  bool
}

// NewOrphans returns the command that finds what belongs to this cluster in the cloud and to no object of it, and removes it.
func NewOrphans() *cobra.Command {
	f := &orphansFlags{account: account{reads: true}}
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "Find load balancers and routes that belong to no object, and remove them",
		Long: `orphans lists the load balancers in the cloud whose Services no longer exist, and the routes that lead to no node.
First the cloud is listed, then the API server: what was made meanwhile is none of these.

--remove removes what is this cluster's beyond doubt, after a confirmation on the terminal or with --yes, and after
another look. Of the others it is said that they are not touched:

  - A load balancer is this cluster's if it carries the cluster's UID, which the Service default/kubernetes has. One without
    a UID may be another cluster's of the same name. Those with another UID are not even listed.
  - A route does not say by whom it was made. It counts as this cluster's if --cluster-name and --cluster-cidr are given,
    it lies wholly within one of those ranges, no node has pods there, and another route under that name leads to a node of
    this cluster. The ranges must be this cluster's alone.

Load balancers are found if the provider lists them. It gets its configuration as under cloud-controller-manager, and the
kubeconfig may be anybody's who may read Services and nodes.

` + cli.ExitCodes,
		Example: `  mooring orphans --cloud-provider=sim --cloud-config=cloud.yaml --kubeconfig=admin.conf
  mooring orphans --cloud-provider=sim --cloud-config=cloud.yaml --kubeconfig=admin.conf \
    --cluster-name=blue --cluster-cidr=10.244.0.0/16 --remove`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	addProvider(cmd, &f.account.provider)
	flags.StringVar(&f.account.config, "cloud-config", "", "`file` with the provider's configuration")
	f.account.kubeconfig.AddFlags(cmd)
	flags.StringVar(&f.clusterName, "cluster-name", defaultClusterName, "`name` of the cluster, as the manager has it")
	flags.StringSliceVar(&f.clusterCIDRs, "cluster-cidr", nil, "`ranges` of the cluster's pods, as the manager has them")
	f.output.AddFlag(cmd)
	flags.BoolVar(&f.remove, "remove", false, "remove what is this cluster's beyond doubt")
	flags.BoolVar(&f.yes, "yes", false, "remove without asking")
	return cmd
}

func (f *orphansFlags) run(cmd *cobra.Command) error {
	terminal := terminalOf(cmd.InOrStdin())
	ranges, err := f.complete(terminal != nil, cmd.Flags().Changed("cluster-name"))
	if err != nil {
		return cli.Usage(cmd, err)
	}
	stop := make(chan struct{})
	defer close(stop)
	searched, err := f.search(ranges, stop)
	if err != nil {
		return err
	}
	err = f.act(cmd.Context(), searched, terminal, cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err != nil && cmd.Context().Err() != nil {
		return cli.Interrupted(fmt.Errorf("interrupted: %w", err))
	}
	return err
}

// complete checks the flags, and returns everything that is wrong with them. The ranges are nil unless the cluster's name was said.
func (f *orphansFlags) complete(canAsk, named bool) (ranges []netip.Prefix, err error) {
	wrong := f.account.validate()
	if err := f.output.Validate(); err != nil {
		wrong = append(wrong, err)
	}
	for _, text := range f.clusterCIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--cluster-cidr: %w", err))
		}
		ranges = append(ranges, prefix)
	}
	switch {
	case f.yes && !f.remove:
		wrong = append(wrong, errors.New("--yes: there is nothing to confirm without --remove"))
	case f.remove && !f.yes && !canAsk:
		wrong = append(wrong, errors.New("--remove: standard input is no terminal to ask at; --yes removes without asking"))
	}
	if !named {
		ranges = nil // another cluster in the account may have been left without a name as well
	}
	return ranges, errors.Join(wrong...)
}

// act lists what was found and removes of it what it may, if that is wished.
func (f *orphansFlags) act(ctx context.Context, searched *search, terminal io.Reader, out, progress io.Writer) error {
	found, err := searched.look(ctx, progress)
	if err != nil {
		return err
	}
	if err := f.write(out, found); err != nil || !f.remove {
		return err
	}
	if found.proven() == 0 {
		_, err := fmt.Fprintln(progress, "Nothing is removed: nothing of it is this cluster's beyond doubt.")
		return err
	}
	if !f.yes {
		_, _ = fmt.Fprintf(progress, "Remove %s? Only \"yes\" is accepted: ", found.removable())
		if agreed, err := answer(ctx, terminal); err != nil || !agreed {
			return errors.Join(err, errors.New("nothing was removed"))
		}
	}
	again, err := searched.look(ctx, progress)
	if err != nil {
		return fmt.Errorf("looking again before anything is removed: %w", err)
	}
	return searched.remove(ctx, found, again, progress)
}

// write shows what was found.
func (f *orphansFlags) write(out io.Writer, found findings) error {
	if text, _ := f.output.ForPeople(); !text {
		return f.output.Print(out, found.document())
	}
	_, err := io.WriteString(out, found.text())
	return err
}

// terminalOf returns the input if it is a terminal, and nil otherwise.
func terminalOf(in io.Reader) io.Reader {
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// answer reports whether the user types yes.
func answer(ctx context.Context, terminal io.Reader) (bool, error) {
	typed := make(chan string, 1)
	go func() { // the goroutine ends with the process if the user types nothing
		line, _ := bufio.NewReader(terminal).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case line := <-typed:
		return line == "yes", nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
