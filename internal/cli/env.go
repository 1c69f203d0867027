package cli

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/x402"
)

// Env holds what commands use of the process that runs them, so that tests can run many at once.
type Env struct {
	// Getenv and Environ read variables, as those of package os do.
	Getenv  func(name string) string
	Environ func() []string
	Now     func() time.Time
	Dir     string        // the working directory; "" is the process's
	AskTime time.Duration // bounds a question to a running purser; 0: 5 s
	Version string        // of the program
	// Become turns this process into a program, or runs it and returns its exit status.
	Become func(path string, args, environ []string) (status int, err error)
	// Open starts a program that goes on without this process; nil: none is started.
	Open   func(path string, args []string) error
	Caddy  Caddy
	Layer  *environment.Layer // of files over the variables above
	Server *Server            // what this process serves
	// Guest holds the peculiarities of a Caddy of one's own; nil: the program is purser.
	Guest *Guest
	// MakeKey makes the exec key in the database that the variables name.
	MakeKey func(ctx context.Context) (FirstKey, error)

	// PublicRPC returns an RPC that init proposes for a network, "" for none; nil: it proposes none.
	PublicRPC func(x402.Network) string

	named  []string           // files of variables that the command was given
	change environment.Change // what the command's files changed
}

func (env *Env) path(path string) string {
	if env.Dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(env.Dir, path)
}

// lookPath finds a program as package exec does. A PATH with the working directory in it is the
// user's choice.
func (env *Env) lookPath(name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(env.path(name))
	}
	for _, dir := range filepath.SplitList(env.Getenv("PATH")) {
		if path, err := exec.LookPath(env.path(filepath.Join(cmp.Or(dir, "."), name))); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Variables and defaults of the server that commands go by.
const (
	dataDirVariable        = "PURSER_DATA_DIR"
	masterKeyVariable      = "PURSER_MASTER_KEY"
	masterKeyFileVariable  = "PURSER_MASTER_KEY_FILE"
	boltPathVariable       = "PURSER_BOLT_PATH"
	networksVariable       = "PURSER_NETWORKS"
	rpcURLVariable         = "PURSER_RPC_URL"
	facilitatorURLVariable = "PURSER_FACILITATOR_URL"

	// DefaultBind and DefaultPort are where the shipped Caddyfile has the proxy, DefaultAdmin where
	// it has the admin endpoint.
	DefaultBind  = "127.0.0.1"
	DefaultPort  = "8402"
	DefaultAdmin = "unix/./purser-admin.sock"

	defaultDataDir     = "./purser-data"
	defaultNetworks    = "base"
	defaultMaxPayment  = "1"
	defaultDailyBudget = "10"
	databaseName       = "purser.db"
	masterKeyName      = "master.key"
	rootPath           = "/ca.crt" // at the proxy: the interception root
	off                = "off"     // no limit, also where there would be one by default
	usdcDecimals       = 6         // on every pinned network
)
