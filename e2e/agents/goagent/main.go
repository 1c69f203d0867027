// Command goagent is an ordinary Go program: it uses http.DefaultClient, which follows the proxy
// variables of the environment. It makes one request and prints the answer as one line of JSON.
// Environment: URL; METHOD, BODY.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext( //nolint:gosec // it asks for what it is told
		ctx, os.Getenv("METHOD"), os.Getenv("URL"), strings.NewReader(os.Getenv("BODY")),
	)
	if err != nil {
		return err
	}
	if req.ContentLength > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req) //nolint:gosec // likewise
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	header := map[string]string{}
	for name := range res.Header {
		header[name] = res.Header.Get(name)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"status": res.StatusCode, "headers": header, "body": string(body)})
}
