package tornproof.spark;

import java.io.EOFException;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.IsoFields;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.format.converter.ParquetMetadataConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.schema.Type;

/**
 * Shows each committed parquet partition of a table as a file of its committed length, which Spark's own reader can read.
 *
 * <p>`tornproof:///TABLE` is a directory: it lists what `_txn` names at that moment. A file is called
 * `DIRECTORY@TOKEN.parquet` and is the first TOKEN bytes of TABLE/DIRECTORY/data.parquet, so that its address says all
 * that a task needs. Below `tornproof:///TABLE/@VIEW` are the files that the driver has given to a view, while it is open.
 * Characters may be escaped as in a URL, since Spark takes some of them for patterns. The layouts of `_txn` and `_meta`
 * are in the class Layout, which Python appends from its own when it compiles this file.
 */
public final class CommittedFileSystem extends FileSystem {
  private static final String SUFFIX = ".parquet";
  private static final String MARK = "@";
  private static final int ATTEMPTS_MAX = 1000;
  private static final Map<String, String[]> VIEWS = new ConcurrentHashMap<String, String[]>();

  private final URI uri = URI.create(Layout.SCHEME + ":///");
  private FileSystem local;

  /** Open a view of such files, or replace it; its name is unique and begins with '@'. */
  public void openView(String name, List<String> files) {
    VIEWS.put(name, (String[]) files.toArray(new String[0]));
  }

  /** Close a view: queries that are planned later are rejected. */
  public void closeView(String name) {
    VIEWS.remove(name);
  }

  @Override
  public String getScheme() {
    return Layout.SCHEME;
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  public void initialize(URI name, Configuration configuration) throws IOException {
    super.initialize(name, configuration);
    setConf(configuration);
    local = FileSystem.getLocal(configuration).getRaw();
  }

  /** Spark asks for this when it plans a query, so that one of a closed view ends here, and not in a task. */
  @Override
  public Path makeQualified(Path path) {
    String name = path.getName();
    if (name.startsWith(MARK) && !VIEWS.containsKey(name)) {
      throw new IllegalArgumentException(
          decoded(path.getParent()) + ": a frame of scan() was used after its `with` block, which kept the files of its"
              + " version; use it inside the block");
    }
    return super.makeQualified(path);
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    String[] names = (String[]) VIEWS.get(path.getName());
    if (names == null) {
      if (namesFile(path)) {
        return new FileStatus[] {getFileStatus(path)};
      }
      List<String> found = committed(decoded(path));
      FileStatus[] files = statuses(path, (String[]) found.toArray(new String[0]));
      rejectOtherColumns(decoded(path), files);
      return files;
    }
    return statuses(path, names);
  }

  private FileStatus[] statuses(Path path, String[] names) throws IOException {
    FileStatus[] files = new FileStatus[names.length];
    for (int index = 0; index < names.length; index++) {
      files[index] = getFileStatus(new Path(path, names[index]));
    }
    return files;
  }

  /**
   * Reject files with a column that the table does not have any more, or has under another name.
   *
   * <p>Spark finds columns by name, and would show its values as those of a later column of that name. Where
   * METADATA_VERSION is 0 no column was ever changed, so that most tables need no look into their files.
   */
  private void rejectOtherColumns(String table, FileStatus[] files) throws IOException {
    ByteBuffer meta = meta(table);
    if (meta.getLong(Layout.METADATA_VERSION) == 0) {
      return;
    }
    Map<Integer, String> names = columnNames(meta);
    for (int index = 0; index < files.length; index++) {
      for (Object field : columns(files[index])) {
        Type column = (Type) field;
        Type.ID id = column.getId();
        if (id == null || !column.getName().equals(names.get(Integer.valueOf(id.intValue())))) {
          throw new IOException(
              table + ": column '" + column.getName() + "' of " + files[index].getPath().getName()
                  + " was dropped or renamed since, or got another type, and Spark finds columns of files by name: read the"
                  + " table with scan() or format(\"tornproof\")");
        }
      }
    }
  }

  private List<Type> columns(FileStatus file) throws IOException {
    ParquetReadOptions options =
        HadoopReadOptions.builder(getConf()).withMetadataFilter(ParquetMetadataConverter.SKIP_ROW_GROUPS).build();
    ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromStatus(file, getConf()), options);
    try {
      return reader.getFileMetaData().getSchema().getFields();
    } finally {
      reader.close();
    }
  }

  /** The names of the columns that are not dropped, by the ids that files call them by. */
  private static Map<Integer, String> columnNames(ByteBuffer meta) {
    Map<Integer, String> names = new HashMap<Integer, String>();
    int count = meta.getInt(Layout.COLUMN_COUNT);
    int position = Layout.META_BYTES + count * Layout.COLUMN_BYTES;
    for (int id = 0; id < count; id++) {
      int start = position + Layout.NAME_LENGTH_BYTES;
      int size = meta.getInt(position) * Layout.CODE_UNIT_BYTES;
      if (meta.getInt(Layout.META_BYTES + id * Layout.COLUMN_BYTES + Layout.TYPE) >= 0) {
        names.put(Integer.valueOf(id), new String(meta.array(), start, size, StandardCharsets.UTF_16LE));
      }
      position = start + size;
    }
    return names;
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    Path whole = path.makeQualified(uri, getWorkingDirectory());
    if (!namesFile(path)) {
      if (!VIEWS.containsKey(path.getName()) && !new File(decoded(path), Layout.TXN_FILE).exists()) {
        throw new FileNotFoundException(decoded(path) + ": no table, as it has no " + Layout.TXN_FILE);
      }
      return new FileStatus(0, true, 1, 0, 0, whole);
    }
    FileStatus real = local.getFileStatus(dataFile(path));
    long token = token(path);
    if (token > real.getLen()) {
      throw new EOFException(path + ": the file has " + real.getLen() + " bytes, fewer than are committed");
    }
    return new FileStatus(token, false, 1, real.getBlockSize(), real.getModificationTime(), whole);
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return new FSDataInputStream(new Beginning(local.open(dataFile(path), bufferSize), token(path)));
  }

  /** The first bytes of a file. */
  private static final class Beginning extends FSInputStream {
    private final FSDataInputStream file;
    private final long end;

    Beginning(FSDataInputStream file, long end) {
      this.file = file;
      this.end = end;
    }

    @Override
    public int read() throws IOException {
      return file.getPos() < end ? file.read() : -1;
    }

    @Override
    public int read(byte[] buffer, int offset, int length) throws IOException {
      long left = end - file.getPos();
      return left > 0 || length == 0 ? file.read(buffer, offset, (int) Math.min(length, left)) : -1;
    }

    @Override
    public int read(long position, byte[] buffer, int offset, int length) throws IOException {
      long left = end - position;
      return left > 0 || length == 0 ? file.read(position, buffer, offset, (int) Math.min(length, left)) : -1;
    }

    @Override
    public void seek(long position) throws IOException {
      if (position > end) {
        throw new EOFException("position " + position + " is behind the committed " + end + " bytes");
      }
      file.seek(position);
    }

    @Override
    public long getPos() throws IOException {
      return file.getPos();
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }

    @Override
    public int available() throws IOException {
      return (int) Math.min(Integer.MAX_VALUE, Math.max(0, end - file.getPos()));
    }

    @Override
    public void close() throws IOException {
      file.close();
    }
  }

  private static boolean namesFile(Path path) {
    String name = path.getName();
    return name.endsWith(SUFFIX) && name.lastIndexOf(MARK) > 0;
  }

  private static long token(Path path) throws IOException {
    String name = path.getName();
    try {
      return Long.parseLong(name.substring(name.lastIndexOf(MARK) + 1, name.length() - SUFFIX.length()));
    } catch (RuntimeException error) {
      throw new FileNotFoundException(path + ": a file here is called DIRECTORY@TOKEN.parquet");
    }
  }

  private static Path dataFile(Path path) {
    Path folder = path.getParent();
    Path table = folder.getName().startsWith(MARK) ? folder.getParent() : folder;
    String name = path.getName();
    String directory = name.substring(0, name.lastIndexOf(MARK));
    return new Path(new File(new File(decoded(table), directory), Layout.DATA_FILE).toURI());
  }

  private static String decoded(Path path) {
    return URLDecoder.decode(path.toUri().getPath().replace("+", "%2B"), StandardCharsets.UTF_8);
  }

  /** The files of the committed version; read again while a writer stores another one. */
  private static List<String> committed(String table) throws IOException {
    FileChannel channel = FileChannel.open(Paths.get(table, Layout.TXN_FILE), StandardOpenOption.READ);
    try {
      for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        long version = read(channel, Layout.VERSION, 8).getLong(0);
        ByteBuffer head = read(channel, 0, Layout.HEADER_BYTES);
        boolean isA = version % 2 == 0;
        int record = head.getInt(isA ? Layout.A_RECORD_OFFSET : Layout.B_RECORD_OFFSET);
        int symbols = head.getInt(isA ? Layout.A_SYMBOLS_SIZE : Layout.B_SYMBOLS_SIZE);
        int size = head.getInt(isA ? Layout.A_PARTITIONS_SIZE : Layout.B_PARTITIONS_SIZE);
        int start = Layout.RECORD_BYTES + symbols + Layout.SIZE_BYTES;
        boolean isPossible = Math.min(record, Math.min(symbols, size)) >= 0 && size <= Layout.RECORD_LIMIT_BYTES;
        ByteBuffer area = isPossible ? read(channel, record, start + size) : null;
        if (read(channel, Layout.VERSION, 8).getLong(0) != version) {
          continue;
        }
        if (area == null || area.getLong(Layout.TXN) != version) {
          throw new IOException(table + ": _txn is damaged; `tornproof verify` says where");
        }
        return files(table, area, start, size);
      }
      throw new IOException(table + ": the version kept changing; try again");
    } finally {
      channel.close();
    }
  }

  private static List<String> files(String table, ByteBuffer area, int start, int size) throws IOException {
    ByteBuffer meta = meta(table);
    int column = Layout.META_BYTES + meta.getInt(Layout.TIMESTAMP_INDEX) * Layout.COLUMN_BYTES;
    boolean nanoseconds = (meta.getInt(column + Layout.TYPE) & Layout.NANOSECOND_MASK) != 0;
    List<String> found = new ArrayList<String>();
    for (int entry = start; entry < start + size; entry += Layout.ENTRY_BYTES) {
      if ((area.getLong(entry + Layout.ROW_COUNT_AND_FLAGS) & Layout.PARQUET_FORMAT_MASK) != 0) {
        long timestamp = area.getLong(entry + Layout.TIMESTAMP);
        long suffix = area.getLong(entry + Layout.NAME_TXN);
        String name = directory(timestamp, meta.getInt(Layout.PARTITION_BY), nanoseconds);
        String numbered = suffix == -1 ? name : name + "." + suffix;
        found.add(numbered + MARK + area.getLong(entry + Layout.TOKEN) + SUFFIX);
      }
    }
    return found;
  }

  private static ByteBuffer meta(String table) throws IOException {
    byte[] content = Files.readAllBytes(Paths.get(table, Layout.META_FILE));
    return ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** The name of a partition's directory without its suffix: as in impl/table/partition_names.py. */
  private static String directory(long timestamp, int partitionBy, boolean nanoseconds) throws IOException {
    long unit = nanoseconds ? 1000000000L : 1000000L;
    int part = (int) Math.floorMod(timestamp, unit);
    int nano = nanoseconds ? part : part * 1000;
    LocalDateTime time = LocalDateTime.ofEpochSecond(Math.floorDiv(timestamp, unit), nano, ZoneOffset.UTC);
    LocalDateTime day = time.toLocalDate().atStartOfDay();
    // Of no language, because some have digits of their own.
    String week = String.format(
        Locale.ROOT, "%04d-W%02d", time.get(IsoFields.WEEK_BASED_YEAR), time.get(IsoFields.WEEK_OF_WEEK_BASED_YEAR));
    boolean isDay = time.equals(day);
    if (partitionBy == Layout.HOUR && time.getMinute() + time.getSecond() + time.getNano() == 0) {
      return formatted(time, "yyyy-MM-dd'T'HH");
    } else if (partitionBy == Layout.WEEK && isDay && time.getDayOfWeek().getValue() == 1) {
      return week;
    } else if (partitionBy == Layout.DAY && isDay) {
      return formatted(time, "yyyy-MM-dd");
    } else if (partitionBy == Layout.MONTH && isDay && time.getDayOfMonth() == 1) {
      return formatted(time, "yyyy-MM");
    } else if (partitionBy == Layout.YEAR && isDay && time.getDayOfYear() == 1) {
      return formatted(time, "yyyy");
    }
    String fraction = nanoseconds ? "SSSSSSSSS" : "SSSSSS";
    String clock = nano != 0 ? "'T'HHmmss-" + fraction
        : time.getMinute() + time.getSecond() != 0 ? "'T'HHmmss" : time.getHour() != 0 ? "'T'HH" : "";
    String date = partitionBy == Layout.WEEK ? week + "-" + time.getDayOfWeek().getValue() : formatted(time, "yyyy-MM-dd");
    return clock.isEmpty() ? date : date + formatted(time, clock);
  }

  private static String formatted(LocalDateTime time, String pattern) {
    return DateTimeFormatter.ofPattern(pattern, Locale.ROOT).format(time);
  }

  private static ByteBuffer read(FileChannel channel, long position, int size) throws IOException {
    ByteBuffer buffer = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    while (buffer.hasRemaining()) {
      if (channel.read(buffer, position + buffer.position()) < 0) {
        break;
      }
    }
    return buffer;
  }

  private static IOException readOnly() {
    return new IOException("tornproof: addresses are read only; write with format(\"tornproof\")");
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) throws IOException {
    throw readOnly();
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
    throw readOnly();
  }

  @Override
  public boolean rename(Path source, Path target) throws IOException {
    throw readOnly();
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    throw readOnly();
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    throw readOnly();
  }

  @Override
  public void setWorkingDirectory(Path path) {}

  @Override
  public Path getWorkingDirectory() {
    return new Path(uri);
  }
}
