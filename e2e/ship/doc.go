// Package ship tests what is handed to operators: a Caddy built with xcaddy, the release binary, the image, and the files
// of deploy that run it. Each way to a purser ends with one that buys from the sandbox's seller.
//
// The builds are those of the scripts in deploy and of the Containerfile. They take minutes at first, and less once Go's
// build cache has their flags. PURSER_RELEASE_BIN names a release binary that is built already.
package ship
