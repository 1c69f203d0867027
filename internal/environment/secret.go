package environment

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// SecretsCommand is the variable with the command that tells the secrets of references. It is split at spaces, and no
// shell sees it. Its last argument is the reference.
const SecretsCommand = "PURSER_SECRETS_COMMAND"

// secretKinds are the beginnings of references that the command resolves, and whether it gets them too.
var secretKinds = []struct {
	prefix string
	whole  bool
}{{"op://", true}, {"vault:", false}, {"secret:", false}}

// secretFile begins a reference to a file.
const secretFile = "file:"

// secretTime bounds the time of the command, and secretRest how long a child of it may keep its output afterwards.
const (
	secretTime = 30 * time.Second
	secretRest = time.Second
)

// ReferenceIn returns the kind of a reference to a secret, such as "op://"; "" for a value that is none.
func ReferenceIn(value string) string {
	for _, kind := range secretKinds {
		if strings.HasPrefix(value, kind.prefix) {
			return kind.prefix
		}
	}
	if strings.HasPrefix(value, secretFile) {
		return secretFile
	}
	return ""
}

// Secret returns the secret that a value refers to, or the value itself. It runs the command of [SecretsCommand], at
// most 30 s. Its errors contain neither the secret nor what the command has written.
func Secret(getenv func(string) string, value string) (string, error) {
	return secret(getenv, value, secretTime)
}

func secret(getenv func(string) string, value string, within time.Duration) (string, error) {
	kind := ReferenceIn(value)
	switch kind {
	case "":
		return value, nil
	case secretFile:
		return ReadSecret(strings.TrimPrefix(value, secretFile))
	}
	words := strings.Fields(getenv(SecretsCommand))
	if len(words) == 0 {
		return "", fmt.Errorf("is a reference that begins with %s, and %s, which resolves it, is not set", kind, SecretsCommand)
	}
	for _, k := range secretKinds {
		if k.prefix == kind && !k.whole {
			value = strings.TrimPrefix(value, kind)
		}
	}
	// Caddy makes a configuration without a context that ends.
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	command := exec.CommandContext(ctx, words[0], append(words[1:], value)...) //nolint:gosec // the operator's own command
	command.WaitDelay = secretRest
	out := &limited{most: MaxSecret}
	command.Stdout = out
	err := command.Run()
	text := strings.TrimSpace(string(out.text))
	var problem string
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		problem = fmt.Sprintf("gave no answer within %s", within)
	case out.more:
		problem = "gave more than a secret"
	case ended:
		problem = fmt.Sprintf("failed (%s)", exit.ProcessState)
	case err != nil:
		problem = "cannot be run: " + err.Error()
	case text == "":
		problem = "gave nothing"
	default:
		return text, nil
	}
	return "", fmt.Errorf("is a reference that begins with %s, and the command of %s %s; run it yourself to see why", kind, SecretsCommand, problem)
}

// limited keeps the beginning of what is written.
type limited struct {
	text []byte
	most int
	more bool
}

func (l *limited) Write(b []byte) (int, error) {
	room := l.most - len(l.text)
	l.more = l.more || len(b) > room
	l.text = append(l.text, b[:min(room, len(b))]...)
	return len(b), nil
}
