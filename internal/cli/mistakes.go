package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/purserpay/purser/internal/environment"
)

// Caddy's own words in front of an error, which say in which part of the configuration it is.
var (
	caddyWords = regexp.MustCompile(`^(?:loading (?:initial|new) config|loading \S+ app module|\S+ app module|start|provision \S+|` +
		`server \S+|setting up [^:]+|route \d+|loading [^:]* modules|position \d+|loading module '[^']+'|` +
		`adapting config using \S+|parsing caddyfile tokens for '[^']+'|validation|decoding config|purser): `)
	placeInFront = regexp.MustCompile(`^([^\s:]+:\d+)(?: - Error during parsing)?: `)
	placeBehind  = regexp.MustCompile(`(?:,| -) at [^\s]+:\d+`)
	optionName   = regexp.MustCompile(`^((?:[a-z0-9_*.-]+ )*[a-z0-9_]+)(?: \(([A-Z0-9_]+)\))?: `)
	variableName = regexp.MustCompile(`\b(?:PURSER|CDP)_[A-Z0-9_]+\b`)
	quotedValue  = regexp.MustCompile(`"([^"]+)"`)
)

// mistake rewrites an error of a configuration: it begins with what is wrong, and ends with the file
// and the line.
func mistake(err error, config string, layer *environment.Layer) error {
	if err == nil {
		return nil
	}
	text, place := strings.TrimSpace(err.Error()), ""
	for {
		rest := caddyWords.ReplaceAllString(text, "")
		if m := placeInFront.FindStringSubmatch(rest); m != nil {
			rest, place = rest[len(m[0]):], m[1]
		}
		if rest == text {
			break
		}
		text = rest
	}
	switch {
	case placeBehind.MatchString(text):
		return errors.New(text)
	case place == "":
		place = placeOf(text, config, layer)
	}
	if place == "" {
		return errors.New(text)
	}
	return fmt.Errorf("%s, at %s", strings.TrimSuffix(text, "."), place)
}

// placeOf finds where the option of an error is set: in the configuration if it is there, else where
// its variable is.
func placeOf(text, config string, layer *environment.Layer) string {
	if m := optionName.FindStringSubmatch(text); m != nil {
		value := ""
		if q := quotedValue.FindStringSubmatch(text); q != nil {
			value = q[1]
		}
		names := strings.Fields(m[1])
		if line := optionLine(config, names[len(names)-1], value); line > 0 {
			return fmt.Sprintf("%s:%d", config, line)
		}
	}
	about, _, _ := strings.Cut(text, ": ") // what follows may be advice
	for _, name := range variableName.FindAllString(about, -1) {
		if place := layer.Place(name); place != "" {
			return place
		}
	}
	return ""
}

// optionLine returns the line of a Caddyfile that sets an option, with this value if there are
// several; 0 if it is not clear which does.
func optionLine(config, option, value string) int {
	f, err := os.Open(config)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	first, many := 0, false
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] != option {
			continue
		}
		if value != "" && strings.Contains(lines.Text(), value) {
			return n
		}
		many = many || first > 0
		if first == 0 {
			first = n
		}
	}
	if many {
		return 0
	}
	return first
}
