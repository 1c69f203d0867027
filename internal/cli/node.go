package cli

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	nodeTime       = 2 * time.Second // bounds the wait for a Node's version
	maxNodeVersion = 64
)

// nodeNames are Node, nodeTools are what runs in the Node that is on the PATH.
var (
	nodeNames = []string{"node", "nodejs"}
	nodeTools = []string{"npx", "npm", "pnpm", "pnpx", "yarn", "corepack", "tsx", "ts-node"}
)

// oldNode returns a warning if the program is a Node that does not heed the proxy: its requests would
// go past purser, and stay 402 without a reason. It is empty for other programs, which are not waited
// for, and where the version is not known.
func (env *Env) oldNode(ctx context.Context, path, name string, environ []string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(filepath.Base(name)), ".exe"), ".cmd")
	if slices.Contains(nodeTools, base) {
		var err error
		if path, err = env.lookPath(nodeNames[0]); err != nil {
			return ""
		}
	} else if !slices.Contains(nodeNames, base) {
		return ""
	}
	if major, minor, ok := nodeVersion(ctx, path, environ); ok {
		return nodeAdvice(major, minor)
	}
	return ""
}

// nodeAdvice returns the warning about a version, if any. NODE_USE_ENV_PROXY came with 24.0 for fetch, with
// 24.5 for node:http and node:https, and with 22.21 for all of them; no 23 has it.
func nodeAdvice(major, minor int) string {
	const instead = "use Node 22.21 or 24.5 and newer, or the TypeScript client"
	switch {
	case major == 24 && minor < 5:
		return fmt.Sprintf("Node %d.%d takes the proxy for fetch only, and requests by node:http or node:https are not paid: %s", major, minor, instead)
	case major < 22, major == 22 && minor < 21, major == 23:
		return fmt.Sprintf("Node %d.%d does not heed proxies, so requests of scripts in it are not paid: %s", major, minor, instead)
	}
	return ""
}

func nodeVersion(ctx context.Context, path string, environ []string) (major, minor int, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	var said firstBytes
	c := exec.CommandContext(ctx, path, "--version")
	c.Env, c.Stdout, c.WaitDelay = environ, &said, nodeTime/10
	if c.Run() != nil {
		return 0, 0, false
	}
	return readNodeVersion(string(said))
}

// firstBytes takes as much as a version may have.
type firstBytes []byte

func (b *firstBytes) Write(p []byte) (int, error) {
	if len(*b)+len(p) > maxNodeVersion {
		return 0, io.ErrShortWrite
	}
	*b = append(*b, p...)
	return len(p), nil
}

var nodeVersions = regexp.MustCompile(`^v(\d+)\.(\d+)\.[^.]*$`)

// readNodeVersion reads v22.21.0.
func readNodeVersion(text string) (major, minor int, ok bool) {
	parts := nodeVersions.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return 0, 0, false
	}
	major, err1 := strconv.Atoi(parts[1])
	minor, err2 := strconv.Atoi(parts[2])
	return major, minor, err1 == nil && err2 == nil
}
