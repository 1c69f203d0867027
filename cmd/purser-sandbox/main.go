// Command purser-sandbox runs purser with a paid world around it, in one process and offline. It
// has a chain with a USDC-like token, a facilitator that really settles on it, a small paid API,
// and a key with a funded wallet. It prints commands to try; with -json it prints addresses for
// programs. `purser-sandbox -h` describes both.
//
// Package sandbox is the world. This package only puts purser in front of it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

const defaultPort = 8402

// flags holds the options of the command line.
type flags struct {
	json    bool
	port    int
	data    string
	verbose bool
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its arguments and output given. It returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "attack" {
		return attack(args[1:], stdout, stderr)
	}
	f, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "%s", help)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "purser-sandbox: %v\nTry purser-sandbox -h.\n", err)
		return 2
	}
	signal.Ignore(syscall.SIGPIPE) // a closed output must not prevent the clean-up
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	progress := stdout
	if f.json {
		progress = stderr
	}
	keepEnvironment(stderr)
	s, err := start(ctx, f, progress)
	if err == nil {
		if f.json {
			err = json.NewEncoder(stdout).Encode(s.about)
		} else {
			err = s.about.print(stdout)
		}
	}
	if err == nil {
		<-ctx.Done()
	}
	interrupted := ctx.Err() != nil
	stop() // a second signal ends the process at once
	if interrupted {
		fmt.Fprintf(progress, "stopping …\n")
	}
	if closeErr := s.close(); closeErr != nil {
		fmt.Fprintf(stderr, "purser-sandbox: stopping: %v\n", closeErr)
		return 1
	}
	if err != nil && !interrupted {
		fmt.Fprintf(stderr, "purser-sandbox: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("purser-sandbox", flag.ContinueOnError)
	set.SetOutput(io.Discard) // run reports errors
	set.BoolVar(&f.json, "json", false, "")
	set.IntVar(&f.port, "port", defaultPort, "")
	set.StringVar(&f.data, "data", "", "")
	set.BoolVar(&f.verbose, "v", false, "")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if f.port < 0 || f.port > maxPort {
		return f, fmt.Errorf("-port %d: it must be 0, or from 1 to %d", f.port, maxPort)
	}
	return f, nil
}

const help = `purser-sandbox: purser with a paid world around it, in one process and offline.

It starts an EVM chain with a USDC-like token, a facilitator that really verifies and settles on it, a small paid API,
and purser with a key whose wallet has 100 USDC of play money, pays for a few things, so that the dashboard has something
to show, and prints its address and commands to try. Interrupt it to end it.
Nothing in it has value, and its chain ends with it: never fund an address that it prints.

  purser-sandbox [-json] [-port N] [-data DIR] [-v]
  purser-sandbox attack [CADDYFILE]    attacks a scratch copy of your own purser: purser-sandbox attack --help

  -port N    purser listens on N of 127.0.0.1 (8402), the seller on N+1, the facilitator on N+2, the chain's JSON-RPC
             on N+3, metrics on N+5, the seller over https on N+6, an identity provider on N+7. 0 picks free ports, so that
             several can run.
  -data DIR  keep purser's database in DIR. Only the sandbox's own databases are opened, or a new one is made. The
             chain begins anew each time, and so do key and wallet: older ones are kept, but have no money.
             Without it everything is in a temporary folder that is removed at the end.
  -json      print one line of JSON when everything answers, and nothing else on standard output, and pay nothing
             beforehand:
             api          purser's REST API, as http://127.0.0.1:8402
             dashboard    purser's pages; the identity provider signs everybody in as the same user, with one click, whose
                          organization has the key
             proxy        the paying proxy, with the key: what HTTP_PROXY is to be
             key          the API key, for the header X-Api-Key or as the proxy's user name
             wallet       address of the key's funded wallet
             seller       the paid API by its name, which only purser's proxy resolves; 127.0.0.1 works as well
                          and, with POST /faucet and address=0x…, gives play money to an address; GET /ca.pem is the
                          root of its certificate
             seller_tls   the same over https
             facilitator  base URL of the facilitator
             rpc          the chain's JSON-RPC; its chain id is that of Base, 8453
             token        address of the token, that of USDC on Base
             ca           path of a PEM file with the root that the proxy opens https with, for its clients to trust
             metrics      URL of the metrics for Prometheus
             admin        Caddy's admin endpoint, as unix//path/of/socket
             data         folder of purser's database
  -v         more of purser's log, on standard error

Of purser's variables it heeds PURSER_MAX_PAYMENT, PURSER_DAILY_BUDGET, PURSER_SETTLEMENT, PURSER_INTERNAL_SECRET,
PURSER_UPGRADE_URL, PURSER_PUBLIC_URL and PURSER_ALLOWED_ORIGINS. All others would lead out of the sandbox.
`
