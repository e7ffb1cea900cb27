"""Jobs: claims of due ones, their schedule history, children, scripts and route memory."""
